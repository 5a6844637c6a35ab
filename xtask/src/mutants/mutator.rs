//! Puts small mistakes into a source file, each behind a switch.
//!
//! Operators are those of mutation testing: a comparison negated or moved by one, a condition dropped or
//! negated, a term removed, a minimum for a maximum, a value for none, a statement left out. Macros,
//! constants and tests are left alone.

use std::collections::BTreeSet;
use std::ops::Range;

use anyhow::Result;
use syn::spanned::Spanned;
use syn::visit::{self, Visit};
use syn::{BinOp, Expr, ExprLit, Lit, Stmt, UnOp};

use crate::cycles::is_test;

/// A small mistake.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Mistake {
    /// The function that has it.
    pub function: String,
    /// What is changed: an operator of mutation testing.
    pub operator: &'static str,
    /// The source text that is changed, on one line.
    pub text: String,
}

/// A change of the text; ranges of changes may nest only if they are insertions around others.
struct Edit {
    range: Range<usize>,
    text: String,
    /// Insertions at one offset: ends before starts, the end of an inner expression first, the start of an
    /// outer one first.
    rank: (u8, isize),
    mistake: usize,
}

/// The mistakes of a file, and what puts them in.
pub(crate) struct Mutated {
    pub mistakes: Vec<Mistake>,
    edits: Vec<Edit>,
}

impl Mutated {
    pub(crate) fn of(source: &str) -> Result<Self> {
        let file = syn::parse_file(source)?;
        let mut mutator = Mutator {
            source,
            functions: Vec::new(),
            mistakes: Vec::new(),
            edits: Vec::new(),
            asked: BTreeSet::new(),
        };
        mutator.visit_file(&file);
        Ok(Self { mistakes: mutator.mistakes, edits: mutator.edits })
    }

    /// The text with the mistakes of these indices in it, and what each of its bytes comes from: offsets in
    /// the new text, with the mistake that begins or ends there. `number` gives the number of the switch of
    /// an index.
    pub(crate) fn apply(
        &self,
        source: &str,
        number: impl Fn(usize) -> Option<usize>,
    ) -> (String, Vec<(usize, Range<usize>)>) {
        let mut edits: Vec<(&Edit, usize)> =
            self.edits.iter().filter_map(|edit| Some((edit, number(edit.mistake)?))).collect();
        edits.sort_by_key(|(edit, _)| (edit.range.start, edit.rank));
        let (mut text, mut at) = (String::new(), 0);
        let mut places: std::collections::BTreeMap<usize, Range<usize>> = std::collections::BTreeMap::new();
        for (edit, number) in edits {
            text.push_str(&source[at..edit.range.start]);
            let start = text.len();
            text.push_str(&edit.text.replace("MUTANT", &format!("crate::mutant_is({number})")));
            at = edit.range.end;
            let place = places.entry(edit.mistake).or_insert(start..start);
            place.end = text.len();
        }
        text.push_str(&source[at..]);
        (text, places.into_iter().collect())
    }
}

struct Mutator<'s> {
    source: &'s str,
    functions: Vec<String>,
    mistakes: Vec<Mistake>,
    edits: Vec<Edit>,
    /// Expressions that a mistake of the expression around them already negates.
    asked: BTreeSet<(usize, usize)>,
}

/// Methods that return a boolean.
const PREDICATES: [&str; 11] = [
    "all",
    "any",
    "contains",
    "contains_key",
    "ends_with",
    "is_empty",
    "is_none",
    "is_none_or",
    "is_some",
    "is_some_and",
    "starts_with",
];

impl Mutator<'_> {
    fn mistake(&mut self, operator: &'static str, place: Range<usize>) -> usize {
        // However literals and lines are wrapped.
        let text = self.source[place].replace("\\\n", "").split_whitespace().collect::<Vec<_>>().join(" ");
        let function = self.functions.join("::");
        self.mistakes.push(Mistake { function, operator, text });
        self.mistakes.len() - 1
    }

    fn edit(&mut self, mistake: usize, range: Range<usize>, text: &str, rank: (u8, isize)) {
        self.edits.push(Edit { range, text: text.to_owned(), rank, mistake });
    }

    /// Puts text around a place.
    fn wrap(&mut self, mistake: usize, place: Range<usize>, before: &str, after: &str) {
        let (length, order) = (place.len().cast_signed(), mistake.cast_signed());
        // Of two with the same place, the one that was found first is the outer one.
        let rank = length * 10_000 - order;
        self.edit(mistake, place.start..place.start, before, (1, -rank));
        self.edit(mistake, place.end..place.end, after, (0, rank));
    }

    fn negate(&mut self, operator: &'static str, place: Range<usize>) {
        if self.asked.insert((place.start, place.end)) {
            let mistake = self.mistake(operator, place.clone());
            self.wrap(mistake, place, "((", ") != MUTANT)");
        }
    }

    /// A condition that is no comparison: those have mistakes of their own.
    fn condition(&mut self, expr: &Expr) {
        match expr {
            Expr::Binary(_) | Expr::Let(_) | Expr::Unary(_) | Expr::Paren(_) | Expr::Macro(_) => {}
            _ => self.negate("negated", place(expr)),
        }
    }

    /// An operand of a chain of `&&` or `||`, dropped.
    fn operand(&mut self, expr: &Expr, and: bool) {
        match expr {
            Expr::Let(_) => {}
            Expr::Binary(binary) if is_chain(&binary.op, and) => {}
            // A chain of the other kind in parentheses, or a single condition.
            _ => {
                let place = place(expr);
                let mistake = self.mistake("dropped", place.clone());
                self.wrap(mistake, place, "((", if and { ") || MUTANT)" } else { ") && !MUTANT)" });
            }
        }
    }

    fn binary(&mut self, binary: &syn::ExprBinary) {
        let (left, right, whole) = (place(&binary.left), place(&binary.right), place(binary));
        let operator = binary.op.span().byte_range();
        match binary.op {
            BinOp::Eq(_) | BinOp::Ne(_) => self.negate("negated", whole),
            BinOp::Lt(_) | BinOp::Le(_) | BinOp::Gt(_) | BinOp::Ge(_) => {
                let (name, right_one, other) = match binary.op {
                    BinOp::Lt(_) => ("<= for <", "<", "<="),
                    BinOp::Le(_) => ("< for <=", "<=", "<"),
                    BinOp::Gt(_) => (">= for >", ">", ">="),
                    _ => ("> for >=", ">=", ">"),
                };
                let mistake = self.mistake(name, whole.clone());
                let after =
                    format!(")) {{ (l, r) => if MUTANT {{ l {other} r }} else {{ l {right_one} r }} }})");
                self.wrap(mistake, whole, "(match (&(", &after);
                self.edit(mistake, operator, "), &(", (2, 0));
            }
            BinOp::And(_) | BinOp::Or(_) => {
                let and = matches!(binary.op, BinOp::And(_));
                self.operand(&binary.left, and);
                self.operand(&binary.right, and);
            }
            BinOp::Add(_) | BinOp::Sub(_) => {
                let mistake = self.mistake("a term removed", left.start..right.end);
                self.wrap(mistake, right, "(if MUTANT { Default::default() } else { ", " })");
            }
            _ => {}
        }
    }

    fn method(&mut self, call: &syn::ExprMethodCall) {
        let (whole, receiver) = (place(call), place(&call.receiver));
        let method = call.method.to_string();
        if let ("min" | "max", Some(argument)) = (method.as_str(), call.args.first()) {
            let (name, other) = if method == "min" { ("max for min", "max") } else { ("min for max", "min") };
            let mistake = self.mistake(name, whole.clone());
            let end = place(argument).end;
            let after = format!(") {{ (l, r) => if MUTANT {{ l.{other}(r) }} else {{ l.{method}(r) }} }})");
            self.wrap(mistake, whole.clone(), "(match (", "");
            self.edit(mistake, receiver.end..place(argument).start, ", ", (2, 0));
            self.edit(mistake, end..whole.end, &after, (2, 0));
        } else if PREDICATES.contains(&method.as_str()) {
            self.negate("negated", whole);
        }
    }
}

fn is_chain(op: &BinOp, and: bool) -> bool {
    if and { matches!(op, BinOp::And(_)) } else { matches!(op, BinOp::Or(_)) }
}

fn place(tokens: &impl Spanned) -> Range<usize> {
    tokens.span().byte_range()
}

impl<'a> Visit<'a> for Mutator<'_> {
    fn visit_item_fn(&mut self, item: &'a syn::ItemFn) {
        if item.sig.constness.is_none() && !is_test(&item.attrs) {
            self.functions.push(item.sig.ident.to_string());
            self.visit_block(&item.block);
            self.functions.pop();
        }
    }

    fn visit_impl_item_fn(&mut self, item: &'a syn::ImplItemFn) {
        if item.sig.constness.is_none() {
            self.functions.push(item.sig.ident.to_string());
            self.visit_block(&item.block);
            self.functions.pop();
        }
    }

    fn visit_item_impl(&mut self, item: &'a syn::ItemImpl) {
        let name = self.source[place(&item.self_ty)].to_owned();
        self.functions.push(name);
        item.items.iter().for_each(|item| self.visit_impl_item(item));
        self.functions.pop();
    }

    fn visit_item_mod(&mut self, item: &'a syn::ItemMod) {
        if !is_test(&item.attrs) {
            visit::visit_item_mod(self, item);
        }
    }

    fn visit_item_const(&mut self, _: &'a syn::ItemConst) {}
    fn visit_item_static(&mut self, _: &'a syn::ItemStatic) {}
    fn visit_impl_item_const(&mut self, _: &'a syn::ImplItemConst) {}
    fn visit_pat(&mut self, _: &'a syn::Pat) {}
    fn visit_type(&mut self, _: &'a syn::Type) {}
    fn visit_attribute(&mut self, _: &'a syn::Attribute) {}

    fn visit_stmt(&mut self, stmt: &'a Stmt) {
        if let Stmt::Expr(expr, Some(_)) = stmt {
            let is_effect = match expr {
                Expr::Assign(_) | Expr::MethodCall(_) | Expr::Call(_) => true,
                Expr::Binary(binary) => matches!(
                    binary.op,
                    BinOp::AddAssign(_)
                        | BinOp::SubAssign(_)
                        | BinOp::BitOrAssign(_)
                        | BinOp::BitAndAssign(_)
                ),
                _ => false,
            };
            if is_effect {
                let mistake = self.mistake("left out", place(expr));
                self.wrap(mistake, place(stmt), "if !MUTANT { ", " }");
            }
        }
        visit::visit_stmt(self, stmt);
    }

    fn visit_expr(&mut self, expr: &'a Expr) {
        match expr {
            Expr::Binary(binary) => self.binary(binary),
            Expr::MethodCall(call) => self.method(call),
            Expr::If(branch) => self.condition(&branch.cond),
            Expr::Unary(unary) if matches!(unary.op, UnOp::Not(_)) => {
                // Not twice: what is negated here needs no mistake of its own.
                let inner = place(&unary.expr);
                self.asked.insert((inner.start, inner.end));
                self.negate("negated", place(expr));
            }
            Expr::Call(call) if matches!(&*call.func, Expr::Path(path) if path.path.is_ident("Some")) => {
                let mistake = self.mistake("None", place(expr));
                self.wrap(mistake, place(expr), "(if MUTANT { None } else { ", " })");
            }
            Expr::Lit(ExprLit { lit: Lit::Bool(_), .. }) => self.negate("negated", place(expr)),
            _ => {}
        }
        visit::visit_expr(self, expr);
    }

    fn visit_macro(&mut self, _: &'a syn::Macro) {}
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The text with all mistakes in it, numbered from 0.
    fn mutated(source: &str) -> String {
        let mutated = Mutated::of(source).unwrap();
        let (text, _) = mutated.apply(source, Some);
        syn::parse_file(&text).unwrap();
        text.replace("crate::mutant_is", "is")
    }

    #[test]
    fn a_comparison_moves_by_one() {
        assert_eq!(
            mutated("fn f() { g(a < b + 1) }"),
            "fn f() { g((match (&(a ), &( b + (if is(1) { Default::default() } else { 1 }))) \
             { (l, r) => if is(0) { l <= r } else { l < r } })) }"
        );
    }

    #[test]
    fn operands_are_dropped_and_conditions_negated() {
        assert_eq!(
            mutated("fn f() { if x() { return a && !b } }"),
            "fn f() { if ((x()) != is(0)) { return ((a) || is(1)) && ((((!b) != is(3))) || is(2)) } }"
        );
    }

    #[test]
    fn a_statement_is_left_out_and_a_minimum_is_a_maximum() {
        assert_eq!(
            mutated("fn f() { s.push(a.min(b)); Some(1) }"),
            "fn f() { if !is(0) { s.push((match (a, b) { (l, r) => if is(1) { l.max(r) } else { l.min(r) } \
             })); } \
             (if is(2) { None } else { Some(1) }) }"
        );
    }

    #[test]
    fn constants_tests_and_macros_are_left_alone() {
        let source = "const A: bool = 1 < 2; const fn f() -> bool { 1 < 2 } #[cfg(test)] mod tests { fn f() \
                      { a < b } } \
                      fn g() { assert!(a < b) }";
        assert_eq!(Mutated::of(source).unwrap().mistakes, []);
    }
}
