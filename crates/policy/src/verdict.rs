//! What follows from the findings.

use types::{Finding, Policy, Severity};

/// Guard refuses above this sum.
pub(crate) const MOST_POINTS: u32 = 15;

/// Where the code cannot be parsed, and why.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SyntaxError {
    /// From 1.
    pub line: u32,
    /// From 1, in characters.
    pub column: u32,
    /// The parser's words.
    pub message: String,
}

/// What was seen in one piece of code.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Report {
    /// In the order of the code.
    pub findings: Vec<Finding>,
    /// The first one, if there is any; it is among the findings too.
    pub syntax_error: Option<SyntaxError>,
    /// The sum that guard goes by.
    pub points: u32,
    /// The rule that refuses the code, if any does.
    pub refused_by: Option<String>,
}

impl Report {
    /// Puts reports on parts of one run together. The sum is that of all.
    #[must_use]
    pub fn join(parts: impl IntoIterator<Item = Self>, policy: Policy) -> Self {
        let mut whole = Self::default();
        for part in parts {
            whole.findings.extend(part.findings);
            whole.syntax_error = whole.syntax_error.or(part.syntax_error);
        }
        whole.judge(policy);
        whole
    }

    /// Decides which findings refuse the code.
    pub(crate) fn judge(&mut self, policy: Policy) {
        self.points = sum(&self.findings);
        let over = self.points > MOST_POINTS;
        for finding in &mut self.findings {
            finding.blocks = match policy {
                Policy::Off | Policy::Report => false,
                // Where the sum refuses, whatever adds to it does.
                Policy::Guard => finding.severity == Severity::Critical || (over && finding.points > 0),
                Policy::Strict => finding.severity >= Severity::Medium || (over && finding.points > 0),
            };
        }
        // The worst is the reason that is given; of equals the first.
        let mut worst: Option<&Finding> = None;
        for finding in self.findings.iter().filter(|finding| finding.blocks) {
            if worst.is_none_or(|worst| rank(finding) > rank(worst)) {
                worst = Some(finding);
            }
        }
        self.refused_by = worst.map(|finding| finding.rule.clone());
    }
}

fn rank(finding: &Finding) -> (Severity, u32) {
    (finding.severity, finding.points)
}

/// What is dangerous counts each time. What is only doubtful counts once: ten harmless lines are not a danger.
fn sum(findings: &[Finding]) -> u32 {
    let mut once: Vec<&str> = Vec::new();
    let mut total = 0_u32;
    for finding in findings {
        if finding.severity < Severity::High {
            if once.contains(&finding.rule.as_str()) {
                continue;
            }
            once.push(&finding.rule);
        }
        total = total.saturating_add(finding.points);
    }
    total
}

#[cfg(test)]
mod tests {
    use super::*;

    fn finding(rule: &str, severity: Severity, points: u32) -> Finding {
        Finding {
            rule: rule.to_owned(),
            severity,
            points,
            line: 1,
            column: 1,
            message: String::new(),
            blocks: false,
            file: None,
        }
    }

    fn judged(policy: Policy, findings: Vec<Finding>) -> Report {
        let mut report = Report { findings, ..Report::default() };
        report.judge(policy);
        report
    }

    #[test]
    fn guard_refuses_what_is_critical_or_adds_up() {
        assert!(judged(Policy::Guard, vec![finding("a", Severity::Critical, 10)]).refused_by.is_some());
        let fifteen = || (0..3).map(|_| finding("a", Severity::High, 5)).collect::<Vec<_>>();
        assert_eq!(judged(Policy::Guard, fifteen()).refused_by, None);
        let mut more = fifteen();
        more.push(finding("b", Severity::Low, 1));
        let report = judged(Policy::Guard, more);
        assert_eq!((report.points, report.refused_by.as_deref()), (16, Some("a")));
        assert!(report.findings.iter().all(|finding| finding.blocks));
    }

    #[test]
    fn doubtful_things_count_once() {
        let many = (0..50).map(|_| finding("a", Severity::Medium, 3)).collect();
        assert_eq!(judged(Policy::Guard, many).points, 3);
    }

    #[test]
    fn strict_refuses_medium_and_above_and_report_nothing() {
        let medium = || vec![finding("a", Severity::Medium, 2), finding("b", Severity::Low, 1)];
        let report = judged(Policy::Strict, medium());
        assert_eq!(report.findings.iter().map(|finding| finding.blocks).collect::<Vec<_>>(), [true, false]);
        assert_eq!(judged(Policy::Report, medium()).refused_by, None);
        assert_eq!(judged(Policy::Report, vec![finding("a", Severity::Critical, 10)]).refused_by, None);
    }
}
