//! The shapes of the code: sizes of functions and files, arguments, circles of imports, tests that skip.

mod source;

use std::path::Path;

use source::scope::Circles;
use syn::visit::{self, Visit};
use syn::{FnArg, Type};

/// Lines of a function, from its `fn` to its last brace.
const MAX_FUNCTION: usize = 70;
/// Lines of a file without its tests.
const MAX_FILE: usize = 600;
/// Files that import each other in a circle.
const MAX_CIRCLE: usize = 3;

/// Functions and files that are longer than allowed today, functions with tuples, and crates with larger circles. One
/// that is mended must leave its list.
const LONG_FUNCTIONS: &[&str] = &[];
const LONG_FILES: &[&str] = &[];
const TUPLES: &[&str] = &[];
const LARGE_CIRCLES: &[&str] = &["experiment"];

/// Fails for everything in `found` that `known` does not name, and for every name in `known` that is not found. A
/// finding is its name and what there is to say of it.
fn compare(what: &str, found: &[(String, String)], known: &[&str]) {
    let new = found.iter().filter(|(name, _)| !known.contains(&name.as_str()));
    let new: Vec<String> = new.map(|(name, more)| format!("{name} {more}")).collect();
    assert!(new.is_empty(), "{what}:\n{}", new.join("\n"));
    for name in known {
        let is_found = found.iter().any(|(other, _)| other == name);
        assert!(is_found, "{name} is mended: take it off its list in {}", file!());
    }
}

#[test]
fn functions_are_short() {
    let mut long = Vec::new();
    for file in source::targets().iter().flat_map(|(_, files)| files) {
        let functions = Functions::of(&file.items);
        for Function { name, line, lines, .. } in functions {
            if lines > MAX_FUNCTION {
                let name = format!("{}: {name}", file.path.display());
                long.push((name, format!("in line {line} has {lines} lines")));
            }
        }
    }
    compare(&format!("functions of more than {MAX_FUNCTION} lines"), &long, LONG_FUNCTIONS);
}

#[test]
fn files_are_short() {
    let mut long = Vec::new();
    for file in source::targets().iter().flat_map(|(_, files)| files) {
        if file.lines > MAX_FILE {
            long.push((file.path.display().to_string(), format!("has {} lines", file.lines)));
        }
    }
    compare(&format!("files of more than {MAX_FILE} lines"), &long, LONG_FILES);
}

#[test]
fn no_argument_is_a_tuple() {
    let mut found = Vec::new();
    for path in source::all_rust_files() {
        let parsed =
            syn::parse_file(&read(&path)).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
        let functions = Functions::of(&parsed.items);
        for Function { name, line, .. } in functions.iter().filter(|function| function.takes_tuple)
        {
            found.push((format!("{}: {name}", source::shown(&path)), format!("in line {line}")));
        }
    }
    found.sort();
    found.dedup_by(|a, b| a.0 == b.0);
    let why = "an argument that is a tuple hides how many there are and lacks names; make a struct";
    compare(why, &found, TUPLES);
}

#[test]
fn circles_of_imports_are_small() {
    let mut found = Vec::new();
    for (name, files) in source::targets() {
        for circle in Circles::of(&files).iter().filter(|circle| circle.len() > MAX_CIRCLE) {
            found.push((name.clone(), format!("of {} files: {}", circle.len(), circle.join(" "))));
        }
    }
    let what = format!("circles of imports of more than {MAX_CIRCLE} files");
    compare(&what, &found, LARGE_CIRCLES);
}

#[test]
fn tests_skip_through_one_helper() {
    let printed = ["print", "ln!(\"skipped"].concat();
    let mut found = Vec::new();
    for path in source::all_rust_files() {
        let mut lines = read(&path).lines().map(str::to_owned).zip(1..).collect::<Vec<_>>();
        lines.retain(|(line, _)| line.contains(&printed) && source::crate_name(&path) != "skip");
        found.extend(lines.iter().map(|(_, number)| format!("{}:{number}", source::shown(&path))));
    }
    assert!(found.is_empty(), "call skip::because instead:\n{}", found.join("\n"));
}

fn read(path: &Path) -> String {
    std::fs::read_to_string(path).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
}

/// A function as it is written.
struct Function {
    name: String,
    line: usize,
    /// From its `fn` to its last brace.
    lines: usize,
    /// Whether an argument is a tuple.
    takes_tuple: bool,
}

/// Every function of a file.
#[derive(Default)]
struct Functions(Vec<Function>);

impl Functions {
    fn of(items: &[syn::Item]) -> Vec<Function> {
        let mut all = Self::default();
        items.iter().for_each(|item| all.visit_item(item));
        all.0
    }

    fn add(&mut self, signature: &syn::Signature, body: &syn::Block) {
        let line = signature.fn_token.span.start().line;
        let last = body.brace_token.span.close().end().line;
        self.0.push(Function {
            name: signature.ident.to_string(),
            line,
            lines: last - line + 1,
            takes_tuple: signature.inputs.iter().any(is_tuple),
        });
    }
}

impl<'ast> Visit<'ast> for Functions {
    fn visit_item_fn(&mut self, function: &'ast syn::ItemFn) {
        self.add(&function.sig, &function.block);
        visit::visit_item_fn(self, function);
    }

    fn visit_impl_item_fn(&mut self, function: &'ast syn::ImplItemFn) {
        self.add(&function.sig, &function.block);
        visit::visit_impl_item_fn(self, function);
    }

    fn visit_trait_item_fn(&mut self, function: &'ast syn::TraitItemFn) {
        if let Some(body) = &function.default {
            self.add(&function.sig, body);
        }
        visit::visit_trait_item_fn(self, function);
    }
}

/// Whether an argument is a tuple, or a reference to one.
fn is_tuple(argument: &FnArg) -> bool {
    let FnArg::Typed(argument) = argument else { return false };
    let mut kind = &*argument.ty;
    while let Type::Reference(reference) = kind {
        kind = &reference.elem;
    }
    matches!(kind, Type::Tuple(tuple) if !tuple.elems.is_empty())
}
