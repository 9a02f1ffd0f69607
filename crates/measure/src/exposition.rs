//! Metrics in Prometheus' text format, version 0.0.4.

use std::fmt::Write;

/// Page of metrics in the text format.
#[derive(Clone, Debug, Default)]
pub struct Exposition {
    text: String,
}

/// Kind of a metric, as in its `# TYPE` line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MetricKind {
    /// A value that only grows; its name ends in `_total`.
    Counter,
    /// A value that may rise and fall.
    Gauge,
    /// Counts of values up to some limits: samples `_bucket` with the label `le`, `_sum` and `_count`.
    Histogram,
}

impl Exposition {
    /// Starts a metric with its help text; its samples follow.
    pub fn family(&mut self, name: &str, kind: MetricKind, help: &str) {
        let kind = match kind {
            MetricKind::Counter => "counter",
            MetricKind::Gauge => "gauge",
            MetricKind::Histogram => "histogram",
        };
        let _ = writeln!(self.text, "# HELP {name} {help}\n# TYPE {name} {kind}");
    }

    /// Adds a sample of the metric `name`.
    pub fn sample(&mut self, name: &str, labels: &[(&str, &str)], value: f64) {
        self.text.push_str(name);
        for (i, (label, text)) in labels.iter().enumerate() {
            let text = text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n");
            let _ = write!(self.text, "{}{label}=\"{text}\"", if i == 0 { '{' } else { ',' });
        }
        let close = if labels.is_empty() { "" } else { "}" };
        let _ = writeln!(self.text, "{close} {value}");
    }

    /// Adds a metric with one sample.
    pub fn single(&mut self, name: &str, kind: MetricKind, help: &str, value: f64) {
        self.family(name, kind, help);
        self.sample(name, &[], value);
    }

    /// Returns the text of all metrics added so far.
    pub fn finish(self) -> String {
        self.text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn metrics_have_the_text_format() {
        let mut metrics = Exposition::default();
        metrics.single("a_total", MetricKind::Counter, "How many.", 3.0);
        metrics.family("b", MetricKind::Gauge, "How much.");
        metrics.sample("b", &[("x", "y"), ("z", "a\"b\\c\nd")], 0.5);
        assert_eq!(
            metrics.finish(),
            "# HELP a_total How many.\n# TYPE a_total counter\na_total 3\n# HELP b How much.\n\
             # TYPE b gauge\nb{x=\"y\",z=\"a\\\"b\\\\c\\nd\"} 0.5\n"
        );
    }
}
