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
/// Files that import each other in pairs that share files; in `lab`, whose rooms stand on floors, and in other crates.
const MAX_SET: [usize; 2] = [2, 3];

#[test]
fn functions_are_short() {
    let mut long = Vec::new();
    for file in source::targets().iter().flat_map(|(_, files)| files) {
        for Function { name, line, lines, .. } in Functions::of(&file.items) {
            if lines > MAX_FUNCTION {
                long.push(format!("{}:{line}: {name} has {lines} lines", file.path.display()));
            }
        }
    }
    assert!(long.is_empty(), "functions of more than {MAX_FUNCTION} lines:\n{}", long.join("\n"));
}

#[test]
fn files_are_short() {
    let mut long = Vec::new();
    for file in source::targets().iter().flat_map(|(_, files)| files) {
        if file.lines > MAX_FILE {
            long.push(format!("{} has {} lines", file.path.display(), file.lines));
        }
    }
    assert!(long.is_empty(), "files of more than {MAX_FILE} lines:\n{}", long.join("\n"));
}

#[test]
fn programs_for_the_kernel_are_short() {
    let (mut long, mut paths) = (Vec::new(), vec![source::workspace().join("crates/kernel/bpf")]);
    while let Some(path) = paths.pop() {
        if path.is_dir() {
            let entries = std::fs::read_dir(path).expect("readable");
            paths.extend(entries.map(|entry| entry.expect("readable").path()));
            continue;
        }
        if path.extension().is_none_or(|extension| extension != "c" && extension != "h") {
            continue;
        }
        let (shown, text, mut begin) = (source::shown(&path), read(&path), (0, ""));
        let lines = text.lines().count();
        if lines > MAX_FILE {
            long.push(format!("{shown} has {lines} lines"));
        }
        // A function begins in the first column, and ends there.
        for (line, number) in text.lines().zip(1..) {
            let is_code = |first: char| first == '_' || first.is_ascii_alphabetic();
            if line.contains('(') && line.starts_with(is_code) {
                begin = (number, line);
            } else if line == "}" && number - begin.0 >= MAX_FUNCTION {
                long.push(format!("{shown}:{}: {}", begin.0, begin.1));
            }
        }
    }
    assert!(
        long.is_empty(),
        "more than {MAX_FILE} lines, or {MAX_FUNCTION} of a function:\n{}",
        long.join("\n")
    );
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
            found.push(format!("{}:{line}: {name}", source::shown(&path)));
        }
    }
    let why = "an argument that is a tuple hides how many there are and lacks names; make a struct";
    assert!(found.is_empty(), "{why}:\n{}", found.join("\n"));
}

#[test]
fn circles_of_imports_have_two_files() {
    let mut found = Vec::new();
    for (name, files) in source::targets() {
        let most = MAX_SET[usize::from(name != "lab")];
        for set in Circles::sets(&files).iter().filter(|set| set.len() > most) {
            found.push(format!("{name}, {} files: {}", set.len(), set.join(" ")));
        }
        found.extend(Circles::large(&files));
    }
    assert!(found.is_empty(), "circles of more than two files:\n{}", found.join("\n"));
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
