//! One walk over the tree, bottom up: each expression is looked at once, and tells what it may stand for.

use std::cell::Cell;
use std::collections::HashMap;

use oxc_ast::ast::{
    ArrowFunctionBody, BreakStatement, CatchParameter, ChainElement, Class, DoWhileStatement, ExportAllDeclaration,
    ExportFromDeclaration, Expression, ForOfStatement, ForStatement, ForStatementLeft, FormalParameters, Function,
    ImportDeclaration, Program, PropertyDefinition, PropertyKey, ReturnStatement, Statement, TSImportEqualsDeclaration,
    TSModuleReference, TSNamespaceDeclaration, TSTypeName, TemplateLiteral, ThrowStatement, VariableDeclaration,
    VariableDeclarator, WhileStatement, WithStatement,
};
use oxc_ast_visit::{Visit, walk};
use oxc_syntax::operator::BinaryOperator;
use oxc_syntax::scope::{ScopeFlags, ScopeId};

use super::bind::start;
use super::names::ESCAPING;
use crate::escape::Escapes;
use crate::rule::Shape;
use crate::scope::{Kind, Scopes};
use crate::sink::Sink;
use crate::value::{MOST_TEXT, Value, Values};

/// Reads one program.
pub(super) struct Reader<'a, 's, 'k> {
    pub(super) sink: &'s mut Sink<'k>,
    pub(super) scopes: Scopes<'a>,
    /// What properties were set to, of whatever object.
    pub(super) properties: HashMap<&'a str, Values>,
    /// Objects whose properties are names here: `with (x) { }`.
    pub(super) spread: Vec<Values>,
    /// What the next function is called with, where that is known.
    pub(super) pending: Vec<Values>,
    /// What functions around this place return, innermost last.
    returns: Vec<Values>,
    /// Classes around this place.
    classes: usize,
    /// The function that was read last.
    function: Values,
    /// What a member stands for whose name is a number or not known.
    pub(super) picked: Option<Values>,
    /// The statement's expression that was read last.
    last: Option<Values>,
    /// Whether this is a statement of the program itself, not one in a block.
    pub(super) top: bool,
    /// For each loop around this place, whether a `break` leaves it.
    loops: Vec<bool>,
    /// Ways out of the function so far.
    pub(super) exits: usize,
    /// Modules that went out of sight.
    pub(super) escapes: Escapes,
    /// Namespaces and `var` around this place.
    wide: usize,
    /// Above zero where texts are meant for people.
    pub(super) prose: usize,
}

/// Reads a program. Twice: what is bound further down is known the second time, and only then is anything told.
pub(super) fn read(program: &Program<'_>, sink: &mut Sink<'_>) {
    let mut reader = Reader {
        sink,
        scopes: Scopes::new(),
        properties: HashMap::new(),
        spread: Vec::new(),
        pending: Vec::new(),
        returns: Vec::new(),
        classes: 0,
        function: Values::default(),
        last: None,
        picked: None,
        top: false,
        loops: Vec::new(),
        exits: 0,
        escapes: Escapes::default(),
        wide: 0,
        prose: 0,
    };
    reader.sink.quiet = true;
    reader.statements(program);
    reader.sink.quiet = false;
    reader.statements(program);
    let Reader { escapes, sink, .. } = reader;
    escapes.tell(sink);
}

impl<'a> Visit<'a> for Reader<'a, '_, '_> {
    fn enter_scope(&mut self, _: ScopeFlags, _: &Cell<Option<ScopeId>>) {
        self.scopes.enter(Kind::Function);
    }

    fn leave_scope(&mut self) {
        self.scopes.leave();
    }

    fn visit_expression(&mut self, expression: &Expression<'a>) {
        self.last = Some(self.eval(expression));
    }

    fn visit_variable_declaration(&mut self, declaration: &VariableDeclaration<'a>) {
        let wide = usize::from(declaration.kind.is_var());
        self.wide += wide;
        walk::walk_variable_declaration(self, declaration);
        self.wide -= wide;
    }

    fn visit_variable_declarator(&mut self, declarator: &VariableDeclarator<'a>) {
        let values = declarator.init.as_ref().map(|init| self.eval(init)).unwrap_or_default();
        // Seen outside of this block, or by the name of the namespace.
        if self.wide > 0 {
            self.escape(&values);
        }
        self.bind_pattern(&declarator.id, &values);
    }

    fn visit_function(&mut self, function: &Function<'a>, flags: ScopeFlags) {
        if let Some(id) = &function.id {
            self.bind(id.name.as_str(), Values::default());
        }
        let returned = self.in_function(|reader| walk::walk_function(reader, function, flags));
        if let Some(id) = &function.id {
            self.scopes.amend(id.name.as_str(), returned.clone());
        }
        self.function = returned;
    }

    fn visit_formal_parameters(&mut self, parameters: &FormalParameters<'a>) {
        let given = std::mem::take(&mut self.pending);
        for (number, parameter) in parameters.items.iter().enumerate() {
            let mut values = parameter.initializer.as_ref().map(|value| self.eval(value)).unwrap_or_default();
            values.join(given.get(number).cloned().unwrap_or_default());
            self.bind_pattern(&parameter.pattern, &values);
        }
        if let Some(rest) = &parameters.rest {
            self.bind_pattern(&rest.rest.argument, &Values::default());
        }
    }

    fn visit_catch_parameter(&mut self, parameter: &CatchParameter<'a>) {
        self.bind_pattern(&parameter.pattern, &Values::default());
    }

    fn visit_class(&mut self, class: &Class<'a>) {
        if let Some(id) = &class.id {
            self.bind(id.name.as_str(), Values::default());
        }
        self.classes += 1;
        walk::walk_class(self, class);
        self.classes -= 1;
    }

    fn visit_ts_namespace_declaration(&mut self, declaration: &TSNamespaceDeclaration<'a>) {
        self.wide += 1;
        walk::walk_ts_namespace_declaration(self, declaration);
        self.wide -= 1;
    }

    fn visit_property_definition(&mut self, property: &PropertyDefinition<'a>) {
        property.decorators.iter().for_each(|decorator| self.visit_decorator(decorator));
        let values = property.value.as_ref().map(|value| self.eval(value)).unwrap_or_default();
        self.escape(&values);
        match &property.key {
            PropertyKey::StaticIdentifier(name) => self.remember(name.name.as_str(), &values),
            PropertyKey::PrivateIdentifier(name) => self.remember(name.name.as_str(), &values),
            PropertyKey::StringLiteral(name) => self.remember(name.value.as_str(), &values),
            key => self.visit_property_key(key),
        }
    }

    fn visit_for_of_statement(&mut self, statement: &ForOfStatement<'a>) {
        self.scopes.enter(Kind::Function);
        let items = self.eval(&statement.right).items();
        match &statement.left {
            ForStatementLeft::VariableDeclaration(declaration) => {
                for declarator in &declaration.declarations {
                    self.bind_pattern(&declarator.id, &items);
                }
            }
            left => {
                if let Some(target) = left.as_assignment_target() {
                    self.assign(target, &items);
                }
            }
        }
        self.loops.push(true);
        self.visit_statement(&statement.body);
        self.loops.pop();
        self.scopes.leave();
    }

    fn visit_with_statement(&mut self, statement: &WithStatement<'a>) {
        let object = self.eval(&statement.object);
        self.spread.push(object);
        self.visit_statement(&statement.body);
        self.spread.pop();
    }

    fn visit_import_declaration(&mut self, declaration: &ImportDeclaration<'a>) {
        self.import_declaration(declaration);
    }

    fn visit_export_all_declaration(&mut self, declaration: &ExportAllDeclaration<'a>) {
        self.module(declaration.source.value.as_str(), start(declaration));
    }

    fn visit_export_from_declaration(&mut self, declaration: &ExportFromDeclaration<'a>) {
        self.module(declaration.source.value.as_str(), start(declaration));
    }

    fn visit_ts_import_equals_declaration(&mut self, declaration: &TSImportEqualsDeclaration<'a>) {
        let at = start(declaration);
        let values = match &declaration.module_reference {
            TSModuleReference::ExternalModuleReference(module) => self.module(module.expression.value.as_str(), at),
            // `import run = cp.exec`
            TSModuleReference::QualifiedName(name) => {
                let left = match &name.left {
                    TSTypeName::IdentifierReference(object) => self.name(object.name.as_str(), at),
                    _ => Values::default(),
                };
                self.member(&left, name.right.name.as_str(), (at, at))
            }
            TSModuleReference::IdentifierReference(object) => self.name(object.name.as_str(), at),
        };
        self.bind(declaration.id.name.as_str(), values);
    }

    fn visit_while_statement(&mut self, statement: &WhileStatement<'a>) {
        self.visit_expression(&statement.test);
        self.repeat(is_true(&statement.test), start(statement), &statement.body);
    }

    fn visit_do_while_statement(&mut self, statement: &DoWhileStatement<'a>) {
        self.visit_expression(&statement.test);
        self.repeat(is_true(&statement.test), start(statement), &statement.body);
    }

    fn visit_for_statement(&mut self, statement: &ForStatement<'a>) {
        self.scopes.enter(Kind::Function);
        if let Some(init) = &statement.init {
            self.visit_for_statement_init(init);
        }
        if let Some(test) = &statement.test {
            self.visit_expression(test);
        }
        if let Some(update) = &statement.update {
            self.visit_expression(update);
        }
        self.repeat(statement.test.as_ref().is_none_or(is_true), start(statement), &statement.body);
        self.scopes.leave();
    }

    fn visit_break_statement(&mut self, statement: &BreakStatement<'a>) {
        match self.loops.last_mut() {
            // A label leads further than one loop.
            Some(left) if statement.label.is_none() => *left = true,
            _ => self.exits += 1,
        }
    }

    fn visit_return_statement(&mut self, statement: &ReturnStatement<'a>) {
        self.exits += 1;
        let values = match &statement.argument {
            // Who calls a function without an object gets everything.
            Some(Expression::ThisExpression(_)) if self.classes == 0 => Values::path("globalThis"),
            Some(argument) => self.eval(argument),
            None => Values::default(),
        };
        self.escape(&values);
        if let Some(returns) = self.returns.last_mut() {
            returns.join(values);
        }
    }

    fn visit_throw_statement(&mut self, statement: &ThrowStatement<'a>) {
        self.exits += 1;
        let values = self.eval(&statement.argument);
        self.escape(&values);
    }
}

impl<'a> Reader<'a, '_, '_> {
    fn statements(&mut self, program: &Program<'a>) {
        for statement in &program.body {
            self.top = !matches!(
                statement,
                Statement::BlockStatement(_) | Statement::IfStatement(_) | Statement::TryStatement(_)
            );
            self.visit_statement(statement);
        }
    }

    fn repeat(&mut self, endless: bool, at: usize, body: &Statement<'a>) {
        let before = self.exits;
        self.loops.push(false);
        self.visit_statement(body);
        let left = self.loops.pop().unwrap_or(true);
        if endless && !left && self.exits == before {
            self.sink.shape(Shape::EndlessLoop, "", at);
        }
    }

    /// Reads a function; gives it by what it may return.
    fn in_function(&mut self, read: impl FnOnce(&mut Self)) -> Values {
        let (loops, exits, top) = (std::mem::take(&mut self.loops), self.exits, std::mem::take(&mut self.top));
        self.returns.push(Values::default());
        read(self);
        (self.loops, self.exits, self.top) = (loops, exits, top);
        let returned = self.returns.pop().unwrap_or_default();
        let mut function = Values::path("function");
        function.add(Value::Gives(returned.iter().cloned().collect()));
        function
    }

    /// What an expression may stand for; everything in it is told on the way.
    pub(super) fn eval(&mut self, expression: &Expression<'a>) -> Values {
        match expression {
            Expression::StringLiteral(literal) => self.text(literal.value.as_str(), start(expression)),
            Expression::TemplateLiteral(template) => self.template(template),
            Expression::NumericLiteral(literal) => number(literal.value),
            Expression::Identifier(name) => self.name(name.name.as_str(), start(expression)),
            // Outside of every function it may be everything.
            Expression::ThisExpression(_) if self.returns.is_empty() && self.classes == 0 => Values::path("globalThis"),
            Expression::ThisExpression(_) => Values::default(),
            Expression::ObjectExpression(object) => self.object(object),
            Expression::TaggedTemplateExpression(tagged) => self.tagged(tagged),
            Expression::ParenthesizedExpression(inner) => self.eval(&inner.expression),
            Expression::AwaitExpression(inner) => {
                self.exits += 1;
                self.eval(&inner.argument)
            }
            Expression::YieldExpression(given) => {
                self.exits += 1;
                let values = given.argument.as_ref().map(|argument| self.eval(argument)).unwrap_or_default();
                self.escape(&values);
                Values::default()
            }
            Expression::TSAsExpression(inner) => self.eval(&inner.expression),
            Expression::TSSatisfiesExpression(inner) => self.eval(&inner.expression),
            Expression::TSNonNullExpression(inner) => self.eval(&inner.expression),
            Expression::TSTypeAssertion(inner) => self.eval(&inner.expression),
            Expression::SequenceExpression(sequence) => {
                let mut last = Values::default();
                for part in &sequence.expressions {
                    last = self.eval(part);
                }
                last
            }
            Expression::ConditionalExpression(choice) => {
                self.visit_expression(&choice.test);
                let mut values = self.eval(&choice.consequent);
                values.join(self.eval(&choice.alternate));
                values
            }
            Expression::LogicalExpression(choice) => {
                let mut values = self.eval(&choice.left);
                values.join(self.eval(&choice.right));
                values
            }
            // Whether something is a function makes none.
            Expression::BinaryExpression(operation)
                if operation.operator == BinaryOperator::Instanceof
                    && matches!(operation.right, Expression::Identifier(_)) =>
            {
                self.eval(&operation.left);
                Values::default()
            }
            Expression::BinaryExpression(operation) => {
                let (left, right) = (self.eval(&operation.left), self.eval(&operation.right));
                self.operate(&left, operation.operator, &right, start(expression))
            }
            Expression::AssignmentExpression(assignment) => self.assignment(assignment),
            Expression::ArrayExpression(array) => self.array(&array.elements),
            Expression::ChainExpression(chain) => {
                if let Some(member) = chain.expression.as_member_expression() {
                    return self.member_expression(member);
                }
                if let ChainElement::CallExpression(call) = &chain.expression {
                    return self.call(call);
                }
                walk::walk_chain_element(self, &chain.expression);
                Values::default()
            }
            Expression::CallExpression(call) => self.call(call),
            Expression::NewExpression(new) => self.construct(new),
            Expression::ImportExpression(import) => {
                let source = self.eval(&import.source);
                self.load(&source, start(expression))
            }
            Expression::ArrowFunctionExpression(arrow) => self.in_function(|reader| {
                walk::walk_arrow_function_expression(reader, arrow);
                if !matches!(arrow.body, ArrowFunctionBody::FunctionBody(_))
                    && let Some(last) = reader.last.take()
                    && let Some(returns) = reader.returns.last_mut()
                {
                    reader.escapes.out(&last, ESCAPING);
                    returns.join(last);
                }
            }),
            Expression::FunctionExpression(_) => {
                walk::walk_expression(self, expression);
                std::mem::take(&mut self.function)
            }
            other => {
                if let Some(member) = other.as_member_expression() {
                    return self.member_expression(member);
                }
                walk::walk_expression(self, other);
                Values::default()
            }
        }
    }

    pub(super) fn text(&mut self, text: &str, at: usize) -> Values {
        if self.prose == 0 {
            self.sink.text(text, at);
        }
        if text.len() <= MOST_TEXT { Values::text(text.to_owned()) } else { Values::default() }
    }

    pub(super) fn template(&mut self, template: &TemplateLiteral<'a>) -> Values {
        let at = start(template);
        let mut text = Some(String::new());
        let mut fills = template.expressions.iter();
        for quasi in &template.quasis {
            let more = quasi.value.cooked.as_ref().unwrap_or(&quasi.value.raw).as_str();
            if self.prose == 0 {
                self.sink.text(more, at);
            }
            let fill = fills.next().map(|fill| self.eval(fill));
            // A tag is given what stands between the texts.
            if let Some(values) = &fill {
                self.escape(values);
            }
            let known = match &fill {
                None => Some(String::new()),
                Some(values) => values.iter().find_map(plain),
            };
            text = match (text, known) {
                (Some(text), Some(known)) if text.len() + more.len() + known.len() <= MOST_TEXT => {
                    Some(text + more + &known)
                }
                _ => None,
            };
        }
        text.map(|text| self.text(&text, at)).unwrap_or_default()
    }
}

fn number(value: f64) -> Values {
    if value.fract() == 0.0 && value.abs() < 1e30 {
        #[expect(clippy::cast_possible_truncation, reason = "whole and within range")]
        return Values::one(Value::Int(value as i128));
    }
    Values::default()
}

/// A test that is always met.
fn is_true(test: &Expression<'_>) -> bool {
    match test.get_inner_expression() {
        Expression::BooleanLiteral(literal) => literal.value,
        Expression::NumericLiteral(literal) => literal.value != 0.0,
        Expression::StringLiteral(literal) => !literal.value.is_empty(),
        Expression::UnaryExpression(not) => {
            not.operator.is_not()
                && match not.argument.get_inner_expression() {
                    Expression::BooleanLiteral(literal) => !literal.value,
                    Expression::NumericLiteral(literal) => literal.value == 0.0,
                    _ => false,
                }
        }
        _ => false,
    }
}

pub(super) fn plain(value: &Value) -> Option<String> {
    match value {
        Value::Text(text) => Some(text.to_string()),
        Value::Int(number) => Some(number.to_string()),
        Value::Path(_)
        | Value::Range(_)
        | Value::List(_)
        | Value::Map(_)
        | Value::Gives(_)
        | Value::Space(_)
        | Value::Getter(_)
        | Value::Own => None,
    }
}
