//! Arguments that several commands share, each group with the part of a request that it becomes.

/// Converts values of arguments into the values of a request with the same meaning.
macro_rules! becomes {
    ($($arg:ident => $value:ident { $($from:ident => $to:ident),* })*) => {
        $(impl From<$arg> for $value {
            fn from(arg: $arg) -> Self {
                match arg {
                    $($arg::$from => $value::$to,)*
                }
            }
        })*
    };
}

pub(crate) mod address;
pub(crate) mod fields;
pub(crate) mod keep;
pub(crate) mod number;
pub(crate) mod sockets;
pub(crate) mod store;
pub(crate) mod transport;
pub(crate) mod workload;
pub(crate) mod zone_file;
