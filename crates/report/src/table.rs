//! A table of cells, made once, column by column, and rendered as text, HTML, CSV, Markdown and LaTeX.

use std::fmt::Write;

use maud::{Markup, html};

use crate::html::parts;
use crate::view::{Align, align, thousands};

/// Content of a column for one cell.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Field {
    /// The rounded value with its unit, or words; `-` without a value.
    pub(crate) text: String,
    /// The exact value, for sorting and scripts.
    pub(crate) value: Option<f64>,
    /// Range of the repeats; empty for a single repeat.
    pub(crate) spread: String,
    /// Notes that only the page has, below the value.
    pub(crate) notes: Vec<String>,
}

impl Field {
    /// Makes a field of words.
    pub(crate) fn words(text: impl Into<String>) -> Self {
        let text = text.into();
        Field { text: if text.is_empty() { "-".to_owned() } else { text }, ..Field::default() }
    }

    /// Makes a field of a value and its text.
    pub(crate) fn number(value: Option<f64>, text: impl Fn(f64) -> String) -> Self {
        Field { value, ..Field::words(value.map_or_else(String::new, text)) }
    }

    /// Makes a field of a count.
    pub(crate) fn count(number: u64) -> Self {
        Field::number(Some(number as f64), thousands)
    }

    /// Adds the spread of the repeats.
    pub(crate) fn with_spread(self, spread: String) -> Self {
        Field { spread, ..self }
    }

    /// Adds notes for the page.
    pub(crate) fn with_notes(mut self, notes: impl IntoIterator<Item = String>) -> Self {
        self.notes.extend(notes);
        self
    }

    /// Returns the value with its spread in brackets.
    fn with_its_spread(&self) -> String {
        match self.spread.as_str() {
            "" => self.text.clone(),
            spread => format!("{} ({spread})", self.text),
        }
    }
}

/// A column: its head, and a field for each row.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Column {
    /// Text at the head of the column.
    pub(crate) head: String,
    /// Whether the column contains words, which are left-aligned.
    pub(crate) words: bool,
    /// In a table that is too wide the columns of the highest rank are omitted first; those of rank
    /// 0 are always shown.
    pub(crate) rank: u8,
    /// A field for each row.
    pub(crate) fields: Vec<Field>,
}

/// A table. The first column names the rows.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Table {
    /// Columns of the table, all of the same length.
    pub(crate) columns: Vec<Column>,
}

impl Table {
    /// Makes a table of rows. Columns without a value have words.
    pub(crate) fn of_rows<'h>(
        heads: impl IntoIterator<Item = &'h str>,
        rows: impl IntoIterator<Item = Vec<Field>>,
    ) -> Self {
        let column =
            |head: &str| Column { head: head.to_owned(), words: true, rank: 0, fields: Vec::new() };
        let mut columns: Vec<Column> = heads.into_iter().map(column).collect();
        for row in rows {
            for (column, field) in columns.iter_mut().zip(row) {
                column.words &= field.value.is_none();
                column.fields.push(field);
            }
        }
        Table { columns }
    }

    /// Adds a column of words.
    pub(crate) fn words(&mut self, head: &str, rank: u8, fields: Vec<Field>) {
        let head = head.to_owned();
        self.columns.push(Column { head, words: true, rank, fields });
    }

    /// Adds a column of numbers.
    pub(crate) fn numbers(&mut self, head: &str, rank: u8, fields: Vec<Field>) {
        let head = head.to_owned();
        self.columns.push(Column { head, words: false, rank, fields });
    }

    /// Returns the heads, and each row.
    fn lines<'a, T>(
        columns: &'a [Column],
        head: impl Fn(&'a Column) -> T,
        field: impl Fn(&'a Column, &'a Field) -> T,
    ) -> Vec<Vec<T>> {
        let rows = columns.first().map_or(0, |column| column.fields.len());
        let row = |i: usize| columns.iter().map(|c| field(c, &c.fields[i])).collect();
        std::iter::once(columns.iter().map(head).collect()).chain((0..rows).map(row)).collect()
    }

    /// Returns the heads and the rows as words, with the spreads.
    fn in_words(columns: &[Column]) -> Vec<Vec<String>> {
        Self::lines(columns, |column| column.head.clone(), |_, field| field.with_its_spread())
    }

    /// Renders text with all columns.
    pub(crate) fn whole_text(&self) -> String {
        self.text(usize::MAX).0
    }

    /// Renders text of at most `width` columns, by omitting columns; returns also the number of
    /// omitted ones.
    pub(crate) fn text(&self, width: usize) -> (String, usize) {
        let mut shown = self.columns.clone();
        loop {
            let side = |c: &Column| if c.words { Align::Left } else { Align::Right };
            let text = align(&Self::in_words(&shown), &shown.iter().map(side).collect::<Vec<_>>());
            let fits = text.lines().all(|line| line.chars().count() <= width);
            let last = (0..shown.len()).max_by_key(|i| (shown[*i].rank, *i));
            match last.filter(|i| !fits && shown[*i].rank > 0) {
                Some(last) => drop(shown.remove(last)),
                None => return (text, self.columns.len() - shown.len()),
            }
        }
    }

    /// Renders a table of the page; `conditions` follow its caption.
    pub(crate) fn html(&self, caption: &str, conditions: &str) -> Markup {
        let heads: Vec<&str> = self.columns.iter().map(|column| column.head.as_str()).collect();
        let signs = |text: &str| match text {
            "-" => "–".to_owned(),
            text => text.replace(">= ", "≥ ").replace("<= ", "≤ "),
        };
        let field = |column: &Column, field: &Field| {
            let notes = std::iter::once(&field.spread).chain(&field.notes);
            let notes: Vec<String> =
                notes.filter(|note| !note.is_empty()).map(|note| signs(note)).collect();
            let (head, text) = (&column.head, signs(&field.text));
            html! {
                @if *head == self.columns[0].head { th scope="row" data-h=(head) data-v=(text) { (text) } }
                @else if column.words { td data-h=(head) data-v=(text) { (text) @for note in &notes { small { (note) } } } }
                @else { td.n data-h=(head) data-v=[field.value] { (text) @for note in &notes { small { (note) } } } }
            }
        };
        let none = |_: &Column| html! {};
        let rows = Self::lines(&self.columns, none, field).into_iter().skip(1);
        let rows: Vec<Markup> = rows.map(|row| html! { @for field in row { (field) } }).collect();
        parts::table(caption, conditions, &heads, &rows)
    }

    /// Renders comma-separated values: numbers unrounded.
    pub(crate) fn csv(&self) -> String {
        let quoted = |text: &str| match text.contains([',', '"', '\n']) {
            true => format!("\"{}\"", text.replace('"', "\"\"")),
            false => text.to_owned(),
        };
        let field = |column: &Column, field: &Field| match (column.words, field.value) {
            (false, value) => value.map(record::six_digits).unwrap_or_default(),
            (true, _) => quoted(&field.text),
        };
        let lines = Self::lines(&self.columns, |column| quoted(&column.head), field);
        lines.iter().map(|line| line.join(",") + "\n").collect()
    }

    /// Renders a table in Markdown (GitHub's).
    pub(crate) fn markdown(&self) -> String {
        let mut lines = Self::in_words(&self.columns);
        let sides = self.columns.iter().map(|c| if c.words { "---" } else { "---:" }.to_owned());
        lines.insert(1, sides.collect());
        let mut out = String::new();
        for line in lines {
            let fields: Vec<_> = line.iter().map(|text| text.replace('|', "\\|")).collect();
            let _ = writeln!(out, "| {} |", fields.join(" | "));
        }
        out
    }

    /// Renders a `tabular` of LaTeX, with the rules of the package booktabs.
    pub(crate) fn latex(&self) -> String {
        let sides: String = self.columns.iter().map(|c| if c.words { 'l' } else { 'r' }).collect();
        let mut lines = Self::in_words(&self.columns).into_iter().map(|line| {
            let fields: Vec<String> = line.iter().map(|text| escaped(text)).collect();
            format!("{} \\\\\n", fields.join(" & "))
        });
        let head = lines.next().unwrap_or_default();
        let body: String = lines.collect();
        format!(
            "\\begin{{tabular}}{{{sides}}}\n\\toprule\n{head}\\midrule\n{body}\\bottomrule\n\\end{{tabular}}\n"
        )
    }
}

/// Returns the text as LaTeX prints it.
fn escaped(text: &str) -> String {
    let mut out = String::new();
    for c in text.chars() {
        match c {
            '&' | '%' | '$' | '#' | '_' | '{' | '}' => out.extend(['\\', c]),
            '\\' => out.push_str("\\textbackslash{}"),
            '~' => out.push_str("\\textasciitilde{}"),
            '^' => out.push_str("\\textasciicircum{}"),
            '<' => out.push_str("\\textless{}"),
            '>' => out.push_str("\\textgreater{}"),
            _ => out.push(c),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table() -> Table {
        let mut table = Table::default();
        let words = |texts: [&str; 2]| texts.map(Field::words).to_vec();
        table.words("server", 0, words(["nsd", "a,b|c_d"]));
        let rate = |x| Field::number(x, |x| format!(">= {x:.0}"));
        table.numbers("qps", 0, vec![rate(Some(12.4)).with_spread("9; 15".into()), rate(None)]);
        table.words("why", 2, words(["it is so", ""]));
        table.numbers("p50", 1, vec![Field::number(Some(0.5), |x| x.to_string()); 2]);
        table
    }

    #[test]
    fn columns_leave_a_narrow_text_by_their_rank() {
        let whole = "server             qps  why       p50\n\
                     nsd      >= 12 (9; 15)  it is so  0.5\n\
                     a,b|c_d              -  -         0.5\n";
        assert_eq!(table().text(100), (whole.to_owned(), 0));
        let (text, left_out) = table().text(30);
        assert!(left_out == 1 && !text.contains("why") && text.contains("p50"), "{text}");
        assert!(text.lines().all(|line| line.chars().count() <= 30), "{text}");
        assert_eq!(table().text(3).1, 2, "rank 0 stays");
    }

    #[test]
    fn each_form_has_the_same_fields() {
        let table = table();
        assert_eq!(table.csv(), "server,qps,why,p50\nnsd,12.4,it is so,0.5\n\"a,b|c_d\",,-,0.5\n");
        let markdown = "| server | qps | why | p50 |\n| --- | ---: | --- | ---: |\n| nsd | >= 12 (9; 15) | it is so | 0.5 |\n\
                        | a,b\\|c_d | - | - | 0.5 |\n";
        assert_eq!(table.markdown(), markdown);
        let latex = table.latex();
        assert!(
            latex.starts_with("\\begin{tabular}{lrlr}\n\\toprule\nserver & qps & why & p50 \\\\\n")
        );
        assert!(latex.contains("a,b|c\\_d & - & - & 0.5") && latex.contains("\\textgreater{}= 12"));
        let page = table.html("All", "link wire").into_string();
        for part in [
            "All <span>(link wire)</span>",
            "<th scope=\"row\" data-h=\"server\" data-v=\"nsd\">nsd</th>",
            "data-h=\"qps\" data-v=\"12.4\">≥ 12<small>9; 15</small></td>",
            "<td class=\"n\" data-h=\"qps\">–</td>",
        ] {
            assert!(page.contains(part), "{part} is not in {page}");
        }
    }
}
