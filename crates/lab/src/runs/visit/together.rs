//! Visits to all servers of a point at once: their answers are compared.

use std::collections::BTreeSet;

use experiment::{Circumstances, Visit, VisitResult, add_visit, answer_figures, visit};
use record::{CellRecord, Run};

use crate::runs::answers::{ComparedQueries, ComparedServer, ComparisonBench};
use crate::runs::run::Event;
use crate::runs::session::{Cell, Session, Shortfall};
use crate::server::{Installed, clear_hosts};
use crate::testbed::Host;

/// Why a server alone has no result.
const NOTHING_TO_COMPARE: &str = "there is no other server whose answers could be compared";

impl Session<'_> {
    /// Returns the cells of all servers at a point, by their numbers, each with the number of its server.
    fn cells_at(&self, point: usize) -> Vec<(usize, usize)> {
        let servers = self.checked.adapters.len();
        let here = (0..servers).filter(|server| !self.is_left_out(*server, point));
        here.map(|server| (point * servers + server, server)).collect()
    }

    /// Measures all servers of a visit's point at once; `made` lists the points at which this was
    /// done.
    pub(crate) fn visit_all(
        &mut self,
        v: &Visit,
        made: &mut BTreeSet<usize>,
        cells: &mut [Cell],
        run: &mut Run,
        notify: &mut dyn FnMut(Event<'_>),
    ) {
        if !made.insert(v.point) {
            return;
        }
        let point = &self.checked.experiment.points[v.point];
        let mut here: Vec<(usize, Installed)> = Vec::new();
        for (index, server) in self.cells_at(v.point) {
            match self.installed(&self.checked.adapters[server], point) {
                Ok(installed) => here.push((index, installed)),
                Err(shortfall) => self.give_up(&[index], &shortfall, cells, run, notify),
            }
        }
        let all: Vec<usize> = here.iter().map(|(index, _)| *index).collect();
        let compared = match here.len() {
            0 | 1 => Err(Shortfall::Cannot(NOTHING_TO_COMPARE.to_owned())),
            _ => self.lay_out(point).and_then(|()| {
                let has_programs =
                    |(_, installed): &(_, Installed)| self.has_programs(installed.adapter(), point);
                let programs = here.iter().any(has_programs);
                self.tuned(point, programs, |session| session.compare(v, here, cells, run, notify))
            }),
        };
        if let Err(shortfall) = compared {
            let left: Vec<usize> = all.into_iter().filter(|i| !cells[*i].given_up).collect();
            self.give_up(&left, &shortfall, cells, run, notify);
        }
    }

    /// Records why some cells were not measured.
    fn give_up(
        &self,
        indices: &[usize],
        shortfall: &Shortfall,
        cells: &mut [Cell],
        run: &mut Run,
        notify: &mut dyn FnMut(Event<'_>),
    ) {
        for index in indices {
            cells[*index].given_up = true;
            self.note(shortfall.clone(), &cells[*index].record, run, notify);
        }
    }

    /// Starts the servers, compares their answers, and adds the findings to their cells. A server
    /// that does not start is skipped, and the others are compared.
    fn compare(
        &mut self,
        v: &Visit,
        here: Vec<(usize, Installed)>,
        cells: &mut [Cell],
        run: &mut Run,
        notify: &mut dyn FnMut(Event<'_>),
    ) -> Result<(), Shortfall> {
        let point = &self.checked.experiment.points[v.point];
        let question_plan = self.checked.questions[v.point];
        let stream = self.stream(v.point)?;
        let Some(prepared) = &stream else {
            return Err(Shortfall::Failed("there is no stream of queries".to_owned()));
        };
        clear_hosts(&self.testbed, &[Host::Dut], "the servers whose answers are compared")?;
        let upstream = self.upstream(point, &question_plan, stream.as_ref())?;
        let mut servers = Vec::new();
        let mut started = Vec::new();
        for (number, (index, installed)) in (0..).zip(here) {
            let (service, _) = self.service(point, &question_plan, &installed, stream.as_ref())?;
            match installed.start_beside(number, &service, self.env()) {
                Ok((server, address)) => {
                    notify(Event::Serving(&installed.adapter().title, installed.version()));
                    let record = &mut cells[index].record;
                    record.server_version = installed.version().map(str::to_owned);
                    record.files = server.files().clone();
                    let name = installed.adapter().name.clone();
                    servers.push(ComparedServer { name, address, server });
                    started.push(index);
                }
                Err(_) if self.is_interrupted() => return Err(Shortfall::Interrupted),
                Err(e) => self.give_up(&[index], &Shortfall::from(e), cells, run, notify),
            }
        }
        if servers.len() < 2 {
            return Err(Shortfall::Cannot(NOTHING_TO_COMPARE.to_owned()));
        }
        let env = self.env();
        let queries = ComparedQueries::new(self.checked.experiment, point, prepared);
        let (watcher, keep) = (self.options.watcher.clone(), self.options.keep);
        let mut bench = ComparisonBench { env, upstream, servers, queries, watcher, keep };
        let mut names = question_plan.budget(point.settings.role, stream.as_ref(), false);
        let found = visit(&point.settings, &mut bench, &mut names, v.repeat, &mut |_| ());
        bench.stop();
        let found = found?;
        for index in started {
            let cell = &mut cells[index];
            forget(&mut cell.record);
            add_visit(&mut cell.record, &point.settings, found.clone(), &Circumstances::default());
            let own = match &found {
                VisitResult::Answers(diff) => {
                    VisitResult::Figures(answer_figures(diff, &cell.record.server))
                }
                other => other.clone(),
            };
            self.visited(v, cell, &own, notify);
        }
        Ok(())
    }
}

/// Removes the results of an earlier comparison: all servers are compared again if one has no
/// result.
fn forget(record: &mut CellRecord) {
    record.repeats = 0;
    record.void_repeats.clear();
    record.figures.clear();
    record.answers = None;
}
