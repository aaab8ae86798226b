//! Binding names: declarations, patterns, imports.

use oxc_ast::ast::{
    AssignmentTarget, AssignmentTargetMaybeDefault, AssignmentTargetProperty, BindingPattern, ImportDeclaration,
    ImportDeclarationSpecifier, ModuleExportName, PropertyKey, SimpleAssignmentTarget,
};
use oxc_ast_visit::Visit;
use oxc_span::GetSpan;

use super::reader::Reader;
use crate::rule::Shape;
use crate::value::{Value, Values};

impl<'a> Reader<'a, '_, '_> {
    pub(super) fn bind(&mut self, name: &'a str, values: Values) {
        if self.scopes.in_module() && self.top {
            self.scopes.make_certain(name);
        }
        self.scopes.bind(name, values);
    }

    /// Binds the names of a pattern to the parts of what it is given.
    pub(super) fn bind_pattern(&mut self, pattern: &BindingPattern<'a>, values: &Values) {
        match pattern {
            BindingPattern::BindingIdentifier(name) => self.bind(name.name.as_str(), values.clone()),
            BindingPattern::ObjectPattern(object) => {
                for property in &object.properties {
                    let part = self.part(&property.key, values);
                    self.bind_pattern(&property.value, &part);
                }
                if let Some(rest) = &object.rest {
                    self.bind_pattern(&rest.argument, values);
                }
            }
            BindingPattern::ArrayPattern(array) => {
                for (number, element) in array.elements.iter().enumerate() {
                    let item: Values = match values.as_list() {
                        Some(items) => items.get(number).cloned().into_iter().collect(),
                        None => values.under(None),
                    };
                    if let Some(element) = element {
                        self.bind_pattern(element, &item);
                    }
                }
                if let Some(rest) = &array.rest {
                    self.bind_pattern(&rest.argument, &values.items().somewhere());
                }
            }
            BindingPattern::AssignmentPattern(assignment) => {
                let mut values = values.clone();
                values.join(self.eval(&assignment.right));
                self.bind_pattern(&assignment.left, &values);
            }
        }
    }

    fn part(&mut self, key: &PropertyKey<'a>, values: &Values) -> Values {
        let at = start(key);
        match key {
            PropertyKey::StaticIdentifier(name) => self.member(values, name.name.as_str(), (at, at)),
            PropertyKey::PrivateIdentifier(_) => Values::default(),
            key => {
                let name = key.as_expression().map(|key| self.eval(key)).unwrap_or_default();
                name.as_text().map(|name| self.member(values, name, (at, at))).unwrap_or_default()
            }
        }
    }

    /// What is on the left of `=`.
    pub(super) fn assign(&mut self, target: &AssignmentTarget<'a>, values: &Values) {
        match target {
            AssignmentTarget::AssignmentTargetIdentifier(name) => self.scopes.bind(name.name.as_str(), values.clone()),
            AssignmentTarget::StaticMemberExpression(member) => {
                self.visit_expression(&member.object);
                self.escape(values);
                self.remember(member.property.name.as_str(), values);
            }
            AssignmentTarget::ObjectAssignmentTarget(object) => {
                for property in &object.properties {
                    match property {
                        AssignmentTargetProperty::AssignmentTargetPropertyIdentifier(property) => {
                            let name = property.binding.name.as_str();
                            let part = self.member(values, name, (start(&**property), start(&**property)));
                            self.scopes.bind(name, part);
                        }
                        AssignmentTargetProperty::AssignmentTargetPropertyProperty(property) => {
                            let part = self.part(&property.name, values);
                            if let AssignmentTargetMaybeDefault::AssignmentTargetIdentifier(name) = &property.binding {
                                self.scopes.bind(name.name.as_str(), part);
                            }
                        }
                    }
                }
            }
            AssignmentTarget::ArrayAssignmentTarget(array) => {
                for (number, element) in array.elements.iter().enumerate() {
                    let item: Values =
                        values.as_list().and_then(|items| items.get(number)).cloned().into_iter().collect();
                    if let Some(AssignmentTargetMaybeDefault::AssignmentTargetIdentifier(name)) = element {
                        self.scopes.bind(name.name.as_str(), item);
                    }
                }
            }
            other => {
                self.escape(values);
                if let Some(simple) = other.as_simple_assignment_target() {
                    self.visit_simple(simple);
                }
            }
        }
    }

    fn visit_simple(&mut self, target: &SimpleAssignmentTarget<'a>) {
        oxc_ast_visit::walk::walk_simple_assignment_target(self, target);
    }

    pub(super) fn remember(&mut self, property: &'a str, values: &Values) {
        if !values.is_empty() {
            self.properties.entry(property).or_default().join(values.clone());
        }
    }

    pub(super) fn import_declaration(&mut self, declaration: &ImportDeclaration<'a>) {
        let module = self.module(declaration.source.value.as_str(), start(declaration));
        for specifier in declaration.specifiers.iter().flatten() {
            match specifier {
                ImportDeclarationSpecifier::ImportSpecifier(specifier) => {
                    let name = match &specifier.imported {
                        ModuleExportName::IdentifierName(name) => name.name.as_str(),
                        ModuleExportName::IdentifierReference(name) => name.name.as_str(),
                        ModuleExportName::StringLiteral(name) => name.value.as_str(),
                    };
                    let at = start(&**specifier);
                    let values = self.member(&module, name, (at, at));
                    self.bind(specifier.local.name.as_str(), values);
                }
                ImportDeclarationSpecifier::ImportDefaultSpecifier(specifier) => {
                    self.bind(specifier.local.name.as_str(), module.clone());
                }
                ImportDeclarationSpecifier::ImportNamespaceSpecifier(specifier) => {
                    self.bind(specifier.local.name.as_str(), module.clone());
                }
            }
        }
    }

    /// A module by its name, however it is brought in.
    pub(super) fn module(&mut self, name: &str, at: usize) -> Values {
        let name = name.strip_prefix("node:").unwrap_or(name);
        // Files of the program itself are no modules of others.
        if name.starts_with('.') || name.starts_with('/') {
            return Values::one(Value::Own);
        }
        if name.starts_with("data:") {
            self.sink.shape(Shape::CodeFromText, "import", at);
        }
        self.sink.import(name, at);
        Values::path(if name == "fs/promises" { "fs" } else { name })
    }
}

pub(super) fn start(node: &impl GetSpan) -> usize {
    usize::try_from(node.span().start).unwrap_or(0)
}
