//! What each module names: its imports and the paths in its code, and in which files of its crate they are defined.

use std::collections::{BTreeMap, BTreeSet};

use proc_macro2::{TokenStream, TokenTree};
use syn::visit::{self, Visit};
use syn::{Item, ItemMod, ItemUse, UseTree, Visibility};

use super::File;

/// How many `use` lead from a name to its definition, at most.
const MAX_HOPS: usize = 16;

/// A path as it is written, without its generic arguments, and its line.
type Written = (Vec<String>, usize);

/// A `use` of one name: the name here, and its path. A glob is named `*`.
struct Import {
    name: String,
    path: Vec<String>,
    line: usize,
    /// Whether it only passes the name on: `pub use`.
    passed_on: bool,
}

/// A module: what it defines, imports and names.
#[derive(Default)]
pub(crate) struct Scope {
    module: Vec<String>,
    /// The index of its file.
    file: usize,
    modules: BTreeSet<String>,
    defined: BTreeSet<String>,
    imports: Vec<Import>,
    paths: Vec<Written>,
}

impl Scope {
    /// The module of a file and those that stand in the same file within it.
    pub(crate) fn of(file: &File, index: usize) -> Vec<Self> {
        let mut all = Vec::new();
        Self::add(&file.items, file.module.clone(), index, &mut all);
        all
    }

    fn add(items: &[Item], module: Vec<String>, file: usize, all: &mut Vec<Self>) {
        let mut scope = Self { module, file, ..Self::default() };
        for item in items {
            match item {
                Item::Mod(ItemMod { ident, content, .. }) => {
                    scope.modules.insert(ident.to_string());
                    if let Some((_, items)) = content {
                        let module = [&scope.module[..], &[ident.to_string()]].concat();
                        Self::add(items, module, file, all);
                    }
                }
                item => {
                    scope.defined.extend(defined(item));
                    scope.visit_item(item);
                }
            }
        }
        all.push(scope);
    }

    /// Every path that is named here from its crate on, with its line: imports, and paths whose first name is one.
    pub(crate) fn full_paths(&self) -> Vec<Written> {
        let imports = self.imports.iter().map(|import| (import.full(), import.line));
        let written = self.paths.iter().map(|(path, line)| {
            let import = self.imports.iter().find(|import| import.name == path[0]);
            let first = import.map_or(vec![path[0].clone()], |import| import.path.clone());
            ([&first[..], &path[1..]].concat(), *line)
        });
        imports.chain(written).collect()
    }
}

impl Import {
    /// The path with the glob at its end, if it is one.
    fn full(&self) -> Vec<String> {
        let glob = (self.name == "*").then(|| "*".to_owned());
        self.path.iter().cloned().chain(glob).collect()
    }
}

impl<'ast> Visit<'ast> for Scope {
    fn visit_item_use(&mut self, item: &'ast ItemUse) {
        let first = self.imports.len();
        flatten(&item.tree, &mut Vec::new(), &mut self.imports);
        let passed_on = !matches!(item.vis, Visibility::Inherited);
        self.imports[first..].iter_mut().for_each(|import| import.passed_on = passed_on);
    }

    fn visit_visibility(&mut self, _: &'ast Visibility) {
        // The path in `pub(crate)` imports nothing.
    }

    fn visit_path(&mut self, path: &'ast syn::Path) {
        let names = path.segments.iter().map(|segment| segment.ident.to_string()).collect();
        let line = path.segments[0].ident.span().start().line;
        self.paths.push((names, line));
        visit::visit_path(self, path);
    }

    fn visit_macro(&mut self, call: &'ast syn::Macro) {
        paths_in(call.tokens.clone(), &mut self.paths);
        visit::visit_macro(self, call);
    }
}

/// The name of an item, if it has one.
fn defined(item: &Item) -> Option<String> {
    Some(match item {
        Item::Const(i) => i.ident.to_string(),
        Item::Enum(i) => i.ident.to_string(),
        Item::Fn(i) => i.sig.ident.to_string(),
        Item::Macro(i) => i.ident.as_ref()?.to_string(),
        Item::Static(i) => i.ident.to_string(),
        Item::Struct(i) => i.ident.to_string(),
        Item::Trait(i) => i.ident.to_string(),
        Item::Type(i) => i.ident.to_string(),
        Item::Union(i) => i.ident.to_string(),
        _ => return None,
    })
}

/// Every name that a `use` brings.
fn flatten(tree: &UseTree, before: &mut Vec<String>, imports: &mut Vec<Import>) {
    let mut leaf = |name: String, last: Option<&syn::Ident>, line: usize| {
        let last = last.map(ToString::to_string).filter(|last| last != "self");
        let path = before.iter().cloned().chain(last).collect();
        imports.push(Import { name, path, line, passed_on: false });
    };
    match tree {
        UseTree::Path(path) => {
            before.push(path.ident.to_string());
            flatten(&path.tree, before, imports);
            before.pop();
        }
        UseTree::Name(name) => {
            let line = name.ident.span().start().line;
            let named = name.ident.to_string();
            let named = if named == "self" { before.last().cloned() } else { Some(named) };
            leaf(named.unwrap_or_default(), Some(&name.ident), line);
        }
        UseTree::Rename(rename) => {
            let line = rename.ident.span().start().line;
            leaf(rename.rename.to_string(), Some(&rename.ident), line);
        }
        UseTree::Glob(glob) => {
            leaf("*".to_owned(), None, glob.star_token.spans[0].start().line);
        }
        UseTree::Group(group) => {
            group.items.iter().for_each(|tree| flatten(tree, before, imports));
        }
    }
}

/// The paths of two names and more in what a macro is given.
fn paths_in(tokens: TokenStream, paths: &mut Vec<Written>) {
    let mut path = Vec::new();
    let mut line = 0;
    let mut colons = 0;
    for token in tokens {
        match token {
            TokenTree::Ident(ident) => {
                if colons != 2 {
                    path.clear();
                }
                if path.is_empty() {
                    line = ident.span().start().line;
                }
                path.push(ident.to_string());
                if path.len() > 1 {
                    paths.push((path.clone(), line));
                }
                colons = 0;
            }
            TokenTree::Punct(punct) if punct.as_char() == ':' => colons += 1,
            TokenTree::Group(group) => {
                paths_in(group.stream(), paths);
                path.clear();
                colons = 0;
            }
            _ => {
                path.clear();
                colons = 0;
            }
        }
    }
}

/// The files of one crate and which of them import which.
pub(crate) struct Circles {
    scopes: BTreeMap<Vec<String>, Scope>,
}

impl Circles {
    /// The imports in circles of more than two files: each imported file imports the other through others.
    pub(crate) fn large(files: &[File]) -> Vec<String> {
        let imports = Self::imports(files);
        let mut found = Vec::new();
        for (from, to) in
            imports.iter().enumerate().flat_map(|(from, all)| all.iter().map(move |to| (from, *to)))
        {
            let mut others = imports.clone();
            others[to].remove(&from);
            if reached(&others, to).contains(&from) {
                found.push(format!(
                    "{} > {}",
                    files[from].path.display(),
                    files[to].path.display()
                ));
            }
        }
        found
    }

    /// The sets of files that import each other, directly or not, the largest first; each sorted.
    pub(crate) fn sets(files: &[File]) -> Vec<Vec<String>> {
        let imports = Self::imports(files);
        let reached: Vec<BTreeSet<usize>> =
            (0..files.len()).map(|from| reached(&imports, from)).collect();
        let mut circles = BTreeSet::new();
        for (i, from) in reached.iter().enumerate() {
            let circle: Vec<usize> =
                from.iter().copied().filter(|other| reached[*other].contains(&i)).collect();
            if circle.len() > 1 {
                circles.insert(circle);
            }
        }
        let name = |i: &usize| files[*i].path.display().to_string();
        let mut circles: Vec<Vec<String>> =
            circles.iter().map(|circle| circle.iter().map(name).collect()).collect();
        circles.iter_mut().for_each(|circle| circle.sort());
        circles.sort_by_key(|circle| std::cmp::Reverse(circle.len()));
        circles
    }

    /// The files that each file imports from.
    pub(crate) fn imports(files: &[File]) -> Vec<BTreeSet<usize>> {
        let scopes = files.iter().enumerate().flat_map(|(i, file)| Scope::of(file, i));
        let all = Self { scopes: scopes.map(|scope| (scope.module.clone(), scope)).collect() };
        let mut imports = vec![BTreeSet::new(); files.len()];
        for scope in all.scopes.values() {
            let imported = scope.imports.iter().filter(|import| !import.passed_on);
            let imported = imported.map(|import| &import.path);
            // A single name that is a module's is a variable here.
            let written = scope.paths.iter().map(|(path, _)| path);
            let written =
                written.filter(|path| path.len() > 1 || !scope.modules.contains(&path[0]));
            for path in imported.chain(written) {
                if let Some(file) = all.file_of(scope, path, MAX_HOPS)
                    && file != scope.file
                {
                    imports[scope.file].insert(file);
                }
            }
        }
        imports
    }

    /// The file that defines what `path` names in `scope`; `None` when it is not of this crate.
    fn file_of(&self, scope: &Scope, path: &[String], hops: usize) -> Option<usize> {
        let hops = hops.checked_sub(1)?;
        let (first, rest) = path.split_first()?;
        let module = match first.as_str() {
            "crate" => Vec::new(),
            "self" => scope.module.clone(),
            "super" => scope.module[..scope.module.len().checked_sub(1)?].to_vec(),
            name if scope.modules.contains(name) => {
                [&scope.module[..], std::slice::from_ref(first)].concat()
            }
            name => {
                let import = scope.imports.iter().find(|import| import.name == name)?;
                if import.path == path {
                    return None;
                }
                return self.file_of(scope, &[&import.path[..], rest].concat(), hops);
            }
        };
        let inner = self.scopes.get(&module)?;
        let Some(next) = rest.first() else { return Some(inner.file) };
        if next == "super" || inner.modules.contains(next) {
            return self.file_of(inner, rest, hops);
        }
        if inner.defined.contains(next) {
            return Some(inner.file);
        }
        if inner.imports.iter().any(|import| &import.name == next) {
            return self.file_of(inner, rest, hops).or(Some(inner.file));
        }
        let globs = inner.imports.iter().filter(|import| import.name == "*");
        let mut through = globs.filter_map(|glob| {
            let path = [&glob.path[..], rest].concat();
            self.file_of(inner, &path, hops).filter(|file| *file != inner.file)
        });
        through.next().or(Some(inner.file))
    }
}

/// The files that are imported by `from`, also through others.
fn reached(imports: &[BTreeSet<usize>], from: usize) -> BTreeSet<usize> {
    let mut reached = BTreeSet::new();
    let mut next = vec![from];
    while let Some(file) = next.pop() {
        next.extend(imports[file].iter().filter(|other| reached.insert(**other)));
    }
    reached
}
