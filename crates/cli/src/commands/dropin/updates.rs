//! Updates in the form of `dnsperf -u`, as scripts of nsupdate.

/// Returns a block of dnsperf as a script of nsupdate, whose names are all absolute.
pub(super) fn script(block: &[String]) -> Result<String, String> {
    let (zone, lines) = block.split_first().ok_or("it has no zone")?;
    let zone = zone.trim_end_matches('.');
    let absolute = |name: &str| match name {
        name if name.ends_with('.') => name.to_owned(),
        "@" => format!("{zone}."),
        name => format!("{name}.{zone}."),
    };
    let mut script = format!("zone {zone}.\n");
    for line in lines {
        let words: Vec<&str> = line.split_ascii_whitespace().collect();
        let (command, name) = match words[..] {
            [command, name, ..] => (command, absolute(name)),
            _ => return Err(format!("`{line}` has no name")),
        };
        let rest = &words[2..];
        // Names in the data are relative to the zone too; texts keep their spaces.
        let with_data = |typed: usize| {
            let named = ["NS", "CNAME", "DNAME", "PTR", "MX", "SRV"];
            let names = |rtype: &&str| named.iter().any(|n| rtype.eq_ignore_ascii_case(n));
            match rest.split_last() {
                Some((last, others)) if others.get(typed).is_some_and(names) => {
                    format!("{} {}", others.join(" "), absolute(last))
                }
                _ => rest.first().map_or("", |first| &line[offset(line, first)..]).to_owned(),
            }
        };
        script += &match (command, rest) {
            ("require", []) => format!("prereq yxdomain {name}\n"),
            ("require", _) => format!("prereq yxrrset {name} {}\n", with_data(0)),
            ("prohibit", []) => format!("prereq nxdomain {name}\n"),
            ("prohibit", [rtype]) => format!("prereq nxrrset {name} {rtype}\n"),
            ("prohibit", _) => {
                return Err(format!(
                    "`{line}`: what is prohibited is a name, or a name and a type"
                ));
            }
            ("add", _) => format!("update add {name} {}\n", with_data(1)),
            ("delete", _) => format!("update delete {name} {}\n", with_data(0)),
            _ => return Err(format!("`{command}` is not require, prohibit, add or delete")),
        };
    }
    Ok(script + "send\n")
}

/// Returns where a part of a line begins.
fn offset(line: &str, part: &str) -> usize {
    part.as_ptr() as usize - line.as_ptr() as usize
}
