// CoreDNS with the few plugins that the tests use: a referee for queries over TLS, HTTPS, QUIC and HTTP/3.
package main

import (
	_ "github.com/coredns/coredns/plugin/bind"
	_ "github.com/coredns/coredns/plugin/forward"
	_ "github.com/coredns/coredns/plugin/log"
	_ "github.com/coredns/coredns/plugin/template"
	_ "github.com/coredns/coredns/plugin/tls"

	"github.com/coredns/coredns/core/dnsserver"
	"github.com/coredns/coredns/coremain"
)

func main() {
	// From first to last, a query passes them in this order.
	dnsserver.Directives = []string{"bind", "tls", "log", "template", "forward"}
	coremain.Run()
}
