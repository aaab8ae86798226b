//! Places of a program where something can be changed.

use std::ops::Range;

use ruff_python_ast::visitor::source_order::{self, SourceOrderVisitor};
use ruff_python_ast::{BoolOp, CmpOp, Expr, Number, Operator, Stmt, UnaryOp};
use ruff_python_parser::parse_module;
use ruff_text_size::Ranged;

/// A number in the program's text.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Literal {
    pub(super) at: Range<usize>,
    pub(super) value: Figure,
    /// The outermost list or tuple that it stands in.
    pub(super) table: Option<usize>,
    /// The innermost one.
    pub(super) row: Option<usize>,
}

/// What kind of number it is.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Figure {
    Int(i64),
    Float(f64),
}

impl Figure {
    #[expect(clippy::cast_precision_loss, reason = "a size is all that is wanted")]
    pub(super) fn size(self) -> f64 {
        match self {
            Self::Int(int) => int as f64,
            Self::Float(float) => float,
        }
        .abs()
    }
}

/// An operator, and what may stand in its place.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Sign {
    pub(super) at: Range<usize>,
    pub(super) instead: &'static [&'static str],
}

/// A statement that has its lines to itself.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Line {
    /// Whole lines, the last line break included.
    pub(super) at: Range<usize>,
    /// Blanks before it.
    pub(super) indent: usize,
    /// Which statements are its neighbours.
    pub(super) body: usize,
    /// Whether it is alone there.
    pub(super) is_only: bool,
}

/// Places of a program where something can be changed.
#[derive(Debug, Default)]
pub(super) struct Sites {
    pub(super) literals: Vec<Literal>,
    pub(super) signs: Vec<Sign>,
    pub(super) lines: Vec<Line>,
}

impl Sites {
    /// Those of a program in its open ranges; nothing if it is no program.
    pub(super) fn of(code: &str, open: &[Range<usize>]) -> Option<Self> {
        let parsed = parse_module(code).ok()?;
        let mut finder = Finder { code, sites: Self::default(), tables: Vec::new(), count: 0, bodies: 0 };
        finder.visit_body(parsed.suite());
        let mut sites = finder.sites;
        let is_open = |at: &Range<usize>| open.iter().any(|open| open.start <= at.start && at.end <= open.end);
        sites.literals.retain(|literal| is_open(&literal.at));
        sites.signs.retain(|sign| is_open(&sign.at));
        sites.lines.retain(|line| is_open(&line.at));
        Some(sites)
    }
}

struct Finder<'a> {
    code: &'a str,
    sites: Sites,
    /// Lists and tuples that we are in.
    tables: Vec<usize>,
    count: usize,
    bodies: usize,
}

impl Finder<'_> {
    fn literal(&mut self, at: Range<usize>, number: &Number, sign: i64) {
        let value = match number {
            Number::Int(int) => match int.as_i64() {
                Some(int) => Figure::Int(int.saturating_mul(sign)),
                None => return,
            },
            #[expect(clippy::cast_precision_loss, reason = "plus or minus one")]
            Number::Float(float) => Figure::Float(float * sign as f64),
            Number::Complex { .. } => return,
        };
        let (table, row) = (self.tables.first().copied(), self.tables.last().copied());
        self.sites.literals.push(Literal { at, value, table, row });
    }

    /// The operator between two operands, where the text says so plainly.
    fn sign(&mut self, between: Range<usize>, word: &str, instead: &'static [&'static str]) {
        let Some(text) = self.code.get(between.clone()) else { return };
        if text.contains('#') || instead.is_empty() {
            return;
        }
        if let Some(found) = text.find(word) {
            let start = between.start + found;
            self.sites.signs.push(Sign { at: start..start + word.len(), instead });
        }
    }

    fn lines(&mut self, body: &[Stmt]) {
        let number = self.bodies;
        self.bodies += 1;
        for stmt in body {
            if is_fixed(stmt) {
                continue;
            }
            let range = span(stmt);
            let start = self.code[..range.start].rfind('\n').map_or(0, |at| at + 1);
            let end = self.code[range.end..].find('\n').map_or(self.code.len(), |at| range.end + at + 1);
            let (before, after) = (&self.code[start..range.start], self.code[range.end..end].trim());
            // Statements that share a line are left alone.
            if before.trim().is_empty() && (after.is_empty() || after.starts_with('#')) {
                let indent = before.len();
                self.sites.lines.push(Line { at: start..end, indent, body: number, is_only: body.len() == 1 });
            }
        }
    }
}

/// What a program cannot be without, or what says nothing.
fn is_fixed(stmt: &Stmt) -> bool {
    match stmt {
        Stmt::Import(_) | Stmt::ImportFrom(_) | Stmt::FunctionDef(_) | Stmt::ClassDef(_) | Stmt::Pass(_) => true,
        Stmt::Expr(expr) => matches!(*expr.value, Expr::StringLiteral(_)),
        _ => false,
    }
}

impl<'a> SourceOrderVisitor<'a> for Finder<'_> {
    fn visit_body(&mut self, body: &'a [Stmt]) {
        self.lines(body);
        source_order::walk_body(self, body);
    }

    fn visit_stmt(&mut self, stmt: &'a Stmt) {
        if let Stmt::AugAssign(assign) = stmt {
            let between = span(&*assign.target).end..span(&*assign.value).start;
            self.sign(between, assign.op.as_str(), others(assign.op));
        }
        source_order::walk_stmt(self, stmt);
    }

    fn visit_expr(&mut self, expr: &'a Expr) {
        match expr {
            Expr::NumberLiteral(literal) => self.literal(span(literal), &literal.value, 1),
            Expr::UnaryOp(unary) if unary.op == UnaryOp::USub => {
                // A number and its sign are one.
                if let Expr::NumberLiteral(literal) = &*unary.operand {
                    return self.literal(span(unary), &literal.value, -1);
                }
            }
            Expr::BinOp(binary) => {
                let between = span(&*binary.left).end..span(&*binary.right).start;
                self.sign(between, binary.op.as_str(), others(binary.op));
            }
            Expr::BoolOp(and_or) => {
                let (word, instead): (_, &[&str]) = match and_or.op {
                    BoolOp::And => ("and", &["or"]),
                    BoolOp::Or => ("or", &["and"]),
                };
                for pair in and_or.values.windows(2) {
                    self.sign(span(&pair[0]).end..span(&pair[1]).start, word, instead);
                }
            }
            Expr::Compare(compare) => {
                let mut left = span(&*compare.left).end;
                for (op, right) in compare.ops.iter().zip(&compare.comparators) {
                    let right = span(right);
                    self.sign(left..right.start, op.as_str(), comparisons(*op));
                    left = right.end;
                }
            }
            Expr::BooleanLiteral(truth) => {
                let instead: &[&str] = if truth.value { &["False"] } else { &["True"] };
                self.sites.signs.push(Sign { at: span(truth), instead });
            }
            Expr::Name(name) => {
                let instead: &[&str] = match name.id.as_str() {
                    "min" => &["max"],
                    "max" => &["min"],
                    _ => &[],
                };
                if !instead.is_empty() {
                    self.sites.signs.push(Sign { at: span(name), instead });
                }
            }
            _ => {}
        }
        let is_table = matches!(expr, Expr::List(_) | Expr::Tuple(_));
        if is_table {
            self.tables.push(self.count);
            self.count += 1;
        }
        source_order::walk_expr(self, expr);
        if is_table {
            self.tables.pop();
        }
    }
}

fn span(node: &impl Ranged) -> Range<usize> {
    node.start().to_usize()..node.end().to_usize()
}

const fn others(op: Operator) -> &'static [&'static str] {
    match op {
        Operator::Add => &["-", "*"],
        Operator::Sub => &["+", "*"],
        Operator::Mult => &["/", "+", "**"],
        Operator::Div => &["*", "-", "//"],
        Operator::FloorDiv => &["/", "%"],
        Operator::Mod => &["//", "-"],
        Operator::BitAnd => &["|", "^"],
        Operator::BitOr => &["&", "^"],
        Operator::BitXor => &["&", "|"],
        Operator::LShift => &[">>"],
        Operator::RShift => &["<<"],
        Operator::Pow | Operator::MatMult => &["*"],
    }
}

const fn comparisons(op: CmpOp) -> &'static [&'static str] {
    match op {
        CmpOp::Lt => &["<=", ">"],
        CmpOp::LtE => &["<", ">="],
        CmpOp::Gt => &[">=", "<"],
        CmpOp::GtE => &[">", "<="],
        CmpOp::Eq => &["!="],
        CmpOp::NotEq => &["=="],
        CmpOp::Is | CmpOp::IsNot | CmpOp::In | CmpOp::NotIn => &[],
    }
}
