//! Updates in the form of `dnsperf -u`, as scripts of nsupdate.

use std::path::Path;

use wire::Name;

/// Returns the zone of a block of dnsperf, and the block as a script of nsupdate, whose names are all absolute.
pub(super) fn script(block: &[String]) -> Result<(Name, String), String> {
    let (zone, lines) = block.split_first().ok_or("it has no zone")?;
    let zone = zone.parse::<Name>().map_err(|e| format!("`{zone}` is not a zone name: {e}"))?;
    let apex = if zone.is_root() { ".".to_owned() } else { format!("{zone}.") };
    let absolute = |name: &str| match name {
        name if name.ends_with('.') => name.to_owned(),
        "@" => apex.clone(),
        name => format!("{name}.{}", apex.trim_start_matches('.')),
    };
    let mut script = format!("zone {apex}\n");
    for line in lines {
        let words: Vec<&str> = line.split_ascii_whitespace().collect();
        let (command, name) = match words[..] {
            [command, name, ..] => (command.to_ascii_lowercase(), absolute(name)),
            _ => return Err(format!("`{line}` has no name")),
        };
        let rest = &words[2..];
        let with_data = |typed: usize| match rest.get(typed..) {
            Some([rtype, _, ..]) => {
                let record = &line[offset(line, rtype)..];
                let ttl = rest[..typed].join(" ");
                data(zone, record).map(|data| format!("{ttl} {data}"))
            }
            _ => Ok(rest.join(" ")),
        };
        script += &match (&*command, rest) {
            ("require", []) => format!("prereq yxdomain {name}\n"),
            ("require", _) => format!("prereq yxrrset {name} {}\n", with_data(0)?),
            ("prohibit", []) => format!("prereq nxdomain {name}\n"),
            ("prohibit", [rtype]) => format!("prereq nxrrset {name} {rtype}\n"),
            ("prohibit", _) => {
                return Err(format!(
                    "`{line}`: write a name, or a name and a type, after `prohibit`"
                ));
            }
            ("add", _) => format!("update add {name} {}\n", with_data(1)?),
            ("delete", _) => format!("update delete {name} {}\n", with_data(0)?),
            _ => return Err(format!("`{command}` is not require, prohibit, add or delete")),
        };
    }
    Ok((zone, script + "send\n"))
}

/// Returns type and data of a record as dnsperf reads them: as in a file of the zone.
fn data(zone: Name, record: &str) -> Result<String, String> {
    let line = format!("@ 0 {record}\n");
    let mut reader = zone::Reader::new(line.as_bytes(), Path::new(""), Some(zone));
    match reader.next_record() {
        Ok(Some(record)) => {
            let rtype = record.rtype().to_int();
            Ok(format!("{} {}", record.rtype(), zone::data_text(rtype, record.data())))
        }
        Ok(None) => Err(format!("`{record}` is no record")),
        Err(zone::ZoneFileError::BadEntry { why, .. }) => Err(format!("`{record}`: {why}")),
        Err(other) => Err(other.to_string()),
    }
}

/// Returns where a part of a line begins.
fn offset(line: &str, part: &str) -> usize {
    part.as_ptr() as usize - line.as_ptr() as usize
}
