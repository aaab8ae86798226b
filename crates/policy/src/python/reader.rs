//! One walk over the tree, bottom up: each expression is looked at once, and tells what it may stand for.

use std::collections::HashMap;

use ruff_python_ast::visitor::{self, Visitor};
use ruff_python_ast::{self as ast, Expr, ExprContext, Stmt};
use ruff_text_size::Ranged;

use super::bind::Runs;
use super::literal::shown;
use super::names::slice;
use crate::escape::Escapes;
use crate::rule::Shape;
use crate::scope::{Kind, Scopes};
use crate::sink::Sink;
use crate::value::{MOST_ITEMS, MOST_TEXT, Value, Values};

/// Turns of a loop that are many.
const GIANT_RANGE: i128 = 1_000_000;

/// Bytes of code that are read again for each item of a list, in all.
const MOST_UNROLLED: usize = 64 << 10;

/// Reads one program.
pub(super) struct Reader<'a, 's, 'k> {
    pub(super) sink: &'s mut Sink<'k>,
    pub(super) scopes: Scopes<'a>,
    /// What attributes were set to, of whatever object.
    pub(super) attributes: HashMap<String, Values>,
    /// Modules whose names were all imported.
    pub(super) stars: Vec<&'a str>,
    /// For each loop around this place, whether a `break` leaves it.
    loops: Vec<bool>,
    /// Comprehensions around this place.
    turns: usize,
    /// Bytes of code that were read once for each item of a list.
    unrolled: usize,
    /// What functions around this place return, innermost last.
    returns: Vec<Values>,
    /// Ways out of the function so far.
    pub(super) exits: usize,
    /// Modules that went out of sight.
    pub(super) escapes: Escapes,
    /// Above zero where texts are meant for people.
    pub(super) prose: usize,
}

/// Reads a module's statements.
pub(super) fn read(body: &[Stmt], sink: &mut Sink<'_>) {
    let mut reader = Reader {
        sink,
        scopes: Scopes::new(),
        attributes: HashMap::new(),
        stars: Vec::new(),
        loops: Vec::new(),
        turns: 0,
        unrolled: 0,
        returns: Vec::new(),
        exits: 0,
        escapes: Escapes::default(),
        prose: 0,
    };
    reader.bind_body(body, Runs::Always);
    reader.visit_body(body);
    let Reader { escapes, sink, .. } = reader;
    escapes.tell(sink);
}

impl<'a> Visitor<'a> for Reader<'a, '_, '_> {
    fn visit_stmt(&mut self, statement: &'a Stmt) {
        match statement {
            Stmt::FunctionDef(function) => self.function(function),
            Stmt::ClassDef(class) => {
                class.decorator_list.iter().for_each(|decorator| self.visit_decorator(decorator));
                if let Some(arguments) = &class.arguments {
                    self.visit_arguments(arguments);
                }
                self.scopes.enter(Kind::Class);
                self.bind_body(&class.body, Runs::Perhaps);
                self.visit_body(&class.body);
                self.scopes.leave();
            }
            Stmt::Import(import) => self.bind_import(import, Runs::Perhaps),
            Stmt::ImportFrom(import) => self.bind_import_from(import, Runs::Perhaps),
            Stmt::While(repeat) => {
                self.turns += 1;
                let test = self.eval(&repeat.test);
                self.turns -= 1;
                let always = is_true(&repeat.test, &test);
                self.repeat(&repeat.body, always, statement);
                self.visit_body(&repeat.orelse);
            }
            Stmt::For(each) => {
                let items = self.eval(&each.iter);
                self.check_range(&items, &each.iter);
                self.visit_expr(&each.target);
                let endless = items.paths().any(|path| matches!(path, "itertools.count()" | "itertools.cycle()"));
                self.repeat(&each.body, endless, statement);
                self.visit_body(&each.orelse);
            }
            Stmt::Break(_) => {
                if let Some(left) = self.loops.last_mut() {
                    *left = true;
                }
            }
            Stmt::Return(given) => {
                self.exits += 1;
                let values = given.value.as_ref().map(|value| self.eval(value)).unwrap_or_default();
                self.escape(&values);
                if let Some(returns) = self.returns.last_mut() {
                    returns.join(values);
                }
            }
            Stmt::Raise(_) => {
                self.exits += 1;
                visitor::walk_stmt(self, statement);
            }
            // What is under a key, or is an attribute, may be found there by anybody.
            Stmt::Assign(assign) => {
                let values = self.eval(&assign.value);
                assign.targets.iter().for_each(|target| self.visit_expr(target));
                assign.targets.iter().for_each(|target| self.bind_key(target, &values));
            }
            // A text that stands alone is for people.
            Stmt::Expr(expression) if expression.value.is_string_literal_expr() => {}
            _ => visitor::walk_stmt(self, statement),
        }
    }

    fn visit_expr(&mut self, expression: &'a Expr) {
        self.eval(expression);
    }

    fn visit_annotation(&mut self, expression: &'a Expr) {
        // A type in quotes is a text, but nobody runs it.
        if !expression.is_string_literal_expr() {
            self.eval(expression);
        }
    }

    fn visit_comprehension(&mut self, comprehension: &'a ast::Comprehension) {
        let items = self.eval(&comprehension.iter);
        self.check_range(&items, &comprehension.iter);
        let items = items.items();
        self.bind_target(&comprehension.target, &items, Runs::Perhaps);
        comprehension.ifs.iter().for_each(|test| self.visit_expr(test));
    }
}

impl<'a> Reader<'a, '_, '_> {
    fn function(&mut self, function: &'a ast::StmtFunctionDef) {
        function.decorator_list.iter().for_each(|decorator| self.visit_decorator(decorator));
        let parameters = self.parameters(&function.parameters);
        if let Some(returns) = &function.returns {
            self.visit_annotation(returns);
        }
        self.scopes.enter(Kind::Function);
        for (name, values) in parameters {
            self.scopes.bind(name, values);
        }
        self.bind_body(&function.body, Runs::Perhaps);
        let (loops, exits) = (std::mem::take(&mut self.loops), self.exits);
        self.returns.push(Values::default());
        self.visit_body(&function.body);
        let returned = self.returns.pop().unwrap_or_default();
        (self.loops, self.exits) = (loops, exits);
        self.scopes.leave();
        self.scopes.amend(function.name.as_str(), gives(&returned));
    }

    /// Names of parameters and what they are when nobody gives anything else. Each default is looked at once: twice would
    /// be twice for each function in it, and so on.
    fn parameters(&mut self, parameters: &'a ast::Parameters) -> Vec<(&'a str, Values)> {
        let mut known = Vec::new();
        for parameter in parameters {
            if let Some(annotation) = parameter.annotation() {
                self.visit_annotation(annotation);
            }
            let values = parameter.default().map(|default| self.eval(default)).unwrap_or_default();
            known.push((parameter.name().as_str(), values));
        }
        known
    }

    /// A loop that `endless` says would go on for ever, if nothing in it leaves.
    fn repeat(&mut self, body: &'a [Stmt], endless: bool, statement: &'a Stmt) {
        let before = self.exits;
        self.loops.push(false);
        self.visit_body(body);
        let left = self.loops.pop().unwrap_or(true);
        if endless && !left && self.exits == before {
            self.sink.shape(Shape::EndlessLoop, "", at(statement));
        }
    }

    pub(super) fn in_loop(&self) -> bool {
        !self.loops.is_empty() || self.turns > 0
    }

    fn check_range(&mut self, items: &Values, expression: &Expr) {
        if let Some(Value::Range(turns)) = items.iter().find(|value| matches!(value, Value::Range(_)))
            && *turns > GIANT_RANGE
        {
            self.sink.shape(Shape::GiantRange, &shown(*turns), at(expression));
        }
    }

    /// `given` is what it is called with, where it stands.
    pub(super) fn lambda(&mut self, lambda: &'a ast::ExprLambda, given: &[Values]) -> Values {
        let mut parameters = lambda.parameters.as_ref().map(|some| self.parameters(some)).unwrap_or_default();
        for ((_, known), given) in parameters.iter_mut().zip(given) {
            known.join(given.clone());
        }
        self.scopes.enter(Kind::Function);
        for (name, values) in parameters {
            self.scopes.bind(name, values);
        }
        let given = self.eval(&lambda.body);
        self.escape(&given);
        self.scopes.leave();
        gives(&given)
    }

    fn comprehension(
        &mut self,
        generators: &'a [ast::Comprehension],
        parts: impl IntoIterator<Item = &'a Expr>,
    ) -> Values {
        self.scopes.enter(Kind::Function);
        self.turns += 1;
        for generator in generators {
            self.visit_comprehension(generator);
        }
        let (mut values, mut last) = (Values::default(), None);
        for part in parts {
            values = self.eval(part);
            last = Some(part);
        }
        let mut result = values.somewhere();
        if let ([generator], Some(part)) = (generators, last) {
            result.join(self.unroll(generator, part));
        }
        self.turns -= 1;
        self.scopes.leave();
        result
    }

    /// What a comprehension makes of each item of a short list: `chr(c) for c in [101, 120]`. Only where little is read
    /// again, and never within another.
    fn unroll(&mut self, generator: &'a ast::Comprehension, part: &'a Expr) -> Values {
        let cost = part.range().len().to_usize() * MOST_ITEMS;
        if self.turns > 1 || cost > 4096 || self.unrolled + cost > MOST_UNROLLED || !generator.ifs.is_empty() {
            return Values::default();
        }
        self.unrolled += cost;
        let quiet = std::mem::replace(&mut self.sink.quiet, true);
        let items = self.eval(&generator.iter);
        let mut made = Vec::new();
        for item in items.as_list().unwrap_or_default() {
            self.scopes.enter(Kind::Function);
            self.bind_target(&generator.target, &Values::one(item.clone()), Runs::Perhaps);
            made.push(self.eval(part).iter().next().cloned().unwrap_or(Value::Own));
            self.scopes.leave();
        }
        self.sink.quiet = quiet;
        if made.is_empty() { Values::default() } else { Values::one(Value::List(made.into())) }
    }

    /// What an expression may stand for; everything in it is told on the way.
    pub(super) fn eval(&mut self, expression: &'a Expr) -> Values {
        match expression {
            Expr::Name(name) => match name.ctx {
                ExprContext::Load => self.name(name.id.as_str(), at(expression)),
                ExprContext::Store | ExprContext::Del | ExprContext::Invalid => Values::default(),
            },
            Expr::Attribute(attribute) => {
                let object = self.eval(&attribute.value);
                let place = (at(expression), attribute.attr.range.start().to_usize());
                self.attribute(&object, attribute.attr.as_str(), place)
            }
            Expr::Call(call) => self.call(call),
            Expr::Subscript(subscript) => {
                let object = self.eval(&subscript.value);
                let key = self.eval(&subscript.slice);
                let part = slice(&object, &subscript.slice);
                if part.is_empty() { self.item(&object, &key, at(expression)) } else { part }
            }
            Expr::BinOp(operation) => self.operation(operation),
            Expr::StringLiteral(literal) => {
                let text = literal.value.to_str();
                self.tell_text(text, at(expression));
                if text.len() <= MOST_TEXT { Values::text(text.to_owned()) } else { Values::default() }
            }
            Expr::BytesLiteral(literal) => {
                let bytes: Vec<u8> = literal.value.bytes().take(MOST_TEXT + 1).collect();
                let text = String::from_utf8_lossy(&bytes).into_owned();
                self.tell_text(&text, at(expression));
                Values::text(text)
            }
            Expr::FString(literal) => self.interpolated(literal),
            Expr::NumberLiteral(literal) => number(&literal.value),
            Expr::UnaryOp(operation) => {
                let operand = self.eval(&operation.operand);
                match (operation.op, operand.as_int()) {
                    (ast::UnaryOp::USub, Some(number)) => Values::one(Value::Int(number.saturating_neg())),
                    (ast::UnaryOp::UAdd, Some(number)) => Values::one(Value::Int(number)),
                    _ => Values::default(),
                }
            }
            Expr::List(ast::ExprList { elts, .. }) | Expr::Tuple(ast::ExprTuple { elts, .. }) => {
                self.list(elts.iter(), at(expression))
            }
            Expr::Set(set) => self.list(set.elts.iter(), at(expression)),
            Expr::Dict(dict) => self.dictionary(&dict.items),
            Expr::Named(named) => {
                let values = self.eval(&named.value);
                self.escape(&values);
                self.bind_target(&named.target, &values, Runs::Perhaps);
                values
            }
            Expr::If(choice) => {
                self.visit_expr(&choice.test);
                let mut values = self.eval(&choice.body);
                values.join(self.eval(&choice.orelse));
                values
            }
            Expr::BoolOp(choice) => {
                let mut values = Values::default();
                for part in &choice.values {
                    values.join(self.eval(part));
                }
                values
            }
            Expr::Starred(starred) => self.eval(&starred.value),
            Expr::Lambda(lambda) => self.lambda(lambda, &[]),
            Expr::ListComp(ast::ExprListComp { elt, generators, .. })
            | Expr::SetComp(ast::ExprSetComp { elt, generators, .. })
            | Expr::Generator(ast::ExprGenerator { elt, generators, .. }) => self.comprehension(generators, [&**elt]),
            Expr::DictComp(comprehension) => {
                let parts = comprehension.key.as_deref().into_iter().chain([&*comprehension.value]);
                self.comprehension(&comprehension.generators, parts)
            }
            Expr::Await(awaited) => {
                self.exits += 1;
                self.eval(&awaited.value)
            }
            Expr::Yield(given) => {
                self.exits += 1;
                let values = given.value.as_ref().map(|value| self.eval(value)).unwrap_or_default();
                self.escape(&values);
                Values::default()
            }
            Expr::YieldFrom(_) => {
                self.exits += 1;
                visitor::walk_expr(self, expression);
                Values::default()
            }
            _ => {
                visitor::walk_expr(self, expression);
                Values::default()
            }
        }
    }
}

/// A function of this code.
fn gives(values: &Values) -> Values {
    Values::one(Value::Gives(values.iter().cloned().collect()))
}

fn number(number: &ast::Number) -> Values {
    match number {
        ast::Number::Int(number) => Values::one(Value::Int(number.as_i64().map_or(i128::MAX, i128::from))),
        ast::Number::Float(number) if number.fract() == 0.0 && number.abs() < 1e30 =>
        {
            #[expect(clippy::cast_possible_truncation, reason = "whole and within range")]
            Values::one(Value::Int(*number as i128))
        }
        ast::Number::Float(_) | ast::Number::Complex { .. } => Values::default(),
    }
}

fn at(node: &impl Ranged) -> usize {
    node.range().start().to_usize()
}

/// A test that is always met.
fn is_true(test: &Expr, values: &Values) -> bool {
    match test {
        Expr::BooleanLiteral(literal) => literal.value,
        Expr::UnaryOp(ast::ExprUnaryOp { op: ast::UnaryOp::Not, operand, .. }) => {
            matches!(&**operand, Expr::BooleanLiteral(literal) if !literal.value)
        }
        Expr::NumberLiteral(_) | Expr::BinOp(_) => values.as_int().is_some_and(|number| number != 0),
        Expr::StringLiteral(literal) => !literal.value.is_empty(),
        _ => false,
    }
}
