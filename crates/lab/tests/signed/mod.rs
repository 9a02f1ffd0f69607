//! A zone signed by every signer that is installed.

use std::path::Path;

use lab::signer::{Algorithm, Denial, Signer, ZoneToSign};
use wire::Name;

/// Signs the zone `name` of the file `input` with each installed signer and each kind of denial, in the folder `dir`, and
/// hands each signed file to `check`.
pub(crate) fn by_each_signer(
    dir: &Path,
    name: &Name,
    input: &Path,
    mut check: impl FnMut(Signer, Denial, &Path),
) {
    for signer in Signer::ALL {
        if !signer.is_installed() {
            let (program, package) = (signer.word(), signer.package());
            skip::because(format_args!("{program} is not installed ({package})"));
            continue;
        }
        for denial in [Denial::Nsec, Denial::Nsec3, Denial::Nsec3OptOut] {
            let keys = dir.join(format!("{}-{denial:?}.keys", signer.word()));
            let output = dir.join(format!("{}-{denial:?}.zone", signer.word()));
            let algorithm = Algorithm::EcdsaP256Sha256;
            let (keys, output) = (&keys, &output);
            let signing = ZoneToSign { signer, zone: name, input, output, keys, algorithm, denial };
            signing.run().expect("signs");
            check(signer, denial, output);
        }
    }
}
