//! What the figures of a run do not claim: a test by RFC 8219, the capacity of a server that had
//! its cores for itself.

use record::{Basis, CellRecord, Run};

use crate::run::names_of;
use crate::view::table::each_once;

/// Returns the sentences that stand beside the figures.
pub(crate) fn caveats(run: &Run) -> Vec<String> {
    not_rfc8219(run).into_iter().chain(others(run)).collect()
}

/// Returns in what a run that names RFC 8219 differs from it; `None` for others, and for one that
/// conforms.
fn not_rfc8219(run: &Run) -> Option<String> {
    let named = [&run.plan.experiment, &run.plan.title].iter().any(|name| name.contains("8219"));
    let differs = each_once(run.results.iter().flat_map(|cell| &cell.differs));
    let differs: Vec<&str> = differs.into_iter().map(String::as_str).collect();
    (named && !differs.is_empty()).then(|| format!("not RFC 8219: {}", differs.join("; ")))
}

/// Returns how much of the server's cores others used where that makes a capacity too low
/// (docs/method.md); one of a plateau is a bound.
fn others(run: &Run) -> Option<String> {
    let used = |cell: &CellRecord| {
        let is_bound = cell.capacity.as_ref()?.basis == Basis::Plateau;
        cell.others_used().filter(|_| !is_bound)
    };
    let whom = names_of(&run.results, &|cell| used(cell).is_some())?;
    let all = || run.results.iter().filter_map(used);
    let low = all().map(|[low, _]| low).fold(1.0, f64::min) * 100.0;
    let high = all().map(|[_, high]| high).fold(0.0, f64::max) * 100.0;
    Some(format!(
        "{whom}: others used {low:.0} to {high:.0} % of the server's cores: the capacity is too low, its interval too narrow; compare \
         ratios only"
    ))
}

#[cfg(test)]
mod tests {
    use measure::stats::Terms;
    use record::{CompareTerms, Round, ServerCapacity};

    use super::*;

    #[test]
    fn a_run_says_what_its_figures_do_not_claim() {
        let mut cell = CellRecord::new("unbound", [].into(), "capacity");
        cell.differs = vec!["the method is `capacity`, not a search".into(), "no self-test".into()];
        cell.rounds = [0.39, 0.6, 0.91]
            .map(|share| Round { foreign: Some(share), ..Round::default() })
            .into();
        let capacity = |basis| Some(ServerCapacity { basis, ..ServerCapacity::default() });
        cell.capacity = capacity(Basis::Saturated);
        let mut run = Run { results: vec![cell], ..Run::default() };
        run.plan.experiment = "dns64-rfc8219".into();
        let rfc = "not RFC 8219: the method is `capacity`, not a search; no self-test";
        let low = "unbound: others used 39 to 91 % of the server's cores: the capacity is too low";
        let said = caveats(&run);
        assert!(said.len() == 2 && said[0] == rfc && said[1].starts_with(low), "{said:?}");
        let terms = CompareTerms::new(Terms { confidence: 0.95, margin: 0.05, seed: 1 });
        let text = crate::run(&run);
        assert!(text.contains(rfc) && text.contains(low), "{text}");
        let page = crate::html(&[run.clone()], &terms);
        assert!(page.contains("not RFC 8219: ") && page.contains("unbound: others used 39"));
        run.results[0].capacity = capacity(Basis::Plateau);
        run.plan.experiment.clear();
        assert!(caveats(&run).is_empty());
        run.results[0].capacity = capacity(Basis::Demand);
        run.results[0].rounds[1].foreign = Some(0.02);
        run.results[0].rounds[2].foreign = Some(0.09);
        assert!(caveats(&run).is_empty(), "a few per cent are subtracted");
    }
}
