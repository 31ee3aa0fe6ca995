//! **What this room is for:** a [`FilterPlan`] compiled to BPF programs and put in force. **Who may enter:** `confine::enter`,
//! tests. **Never done here:** choosing what is refused (the profiles do). **Where the proof is:** `tests/profiles.rs` makes
//! every call of every profile behind its filter.
//!
//! `seccompiler` gives a program one answer for all that match, so a plan becomes a stack of programs, one an answer. Of the
//! stack the kernel takes the strictest class (kill, errno, allow), and within a class the program installed last; so the
//! programs are installed in reverse, and of two errors for one call the first rule's is the answer.
//! Every program begins with the architecture check (`int 0x80` and other foreign calls: the process is killed) and, on
//! x86-64, with a guard for x32 numbers (`ENOSYS`, as a kernel without x32 says): the same number means another call there.

use std::collections::BTreeMap;

use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter, SeccompRule,
    TargetArch, sock_filter,
};

use crate::confinement::{Action, ArgOp, ArgTest, CallRule, FilterPlan};
use crate::sysnum;

/// Instructions of one program that the kernel takes (`BPF_MAXINSNS`).
const MAX_INSTRUCTIONS: usize = 4096;

/// Bits of a number that mark the x32 ABI (`__X32_SYSCALL_BIT`); everything from here up is refused.
const X32: u32 = 0x4000_0000;

/// The largest error number that the kernel gives (`MAX_ERRNO`).
const MAX_ERRNO: i32 = 4095;

/// What the canary call answers when a filter of ours is in force: EISNAM. No kernel and no other sandbox answers a
/// `keyctl` with it, so an outer filter that refuses `keyctl` (container runtimes do, with EPERM) is not taken for ours.
const CANARY_ERRNO: i32 = 120;

/// The operation of the canary call; see [`crate::sys::keyctl_canary`].
const CANARY_OPERATION: u64 = 0xffff;

/// Why a filter cannot be made or put in force. Nothing runs then.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SeccompError {
    /// A plan that allows by default holds an allow rule: it would change nothing, so it is a slip.
    #[error("the filter allows by default and has an allow rule for call {0}")]
    PointlessAllow(i64),
    /// A call number, argument number or value that cannot be.
    #[error("the filter's rule for call {0} has a number, an argument or a value out of range")]
    OutOfRange(i64),
    /// The machine's architecture is not one that filters are made for.
    #[error("no filter for the architecture {0}")]
    Architecture(&'static str),
    /// The compiler refused.
    #[error("the filter does not compile: {0}")]
    Compile(#[from] seccompiler::BackendError),
    /// More instructions than the kernel takes.
    #[error("the filter has {0} instructions, the kernel takes {MAX_INSTRUCTIONS}")]
    TooLong(usize),
    /// The program does not begin with the architecture check that the guard is put behind.
    #[error("the filter compiler's architecture check is not where it was")]
    Shape,
    /// The kernel refused the filter (an outer sandbox may forbid `seccomp`, an old kernel may lack it).
    #[error("the kernel does not take the filter: {0}")]
    Install(#[from] seccompiler::Error),
}

/// A compiled filter: programs in the order in which they are installed.
#[derive(Clone)]
pub struct Filters {
    programs: Vec<BpfProgram>,
}

impl std::fmt::Debug for Filters {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let lengths: Vec<usize> = self.programs.iter().map(Vec::len).collect();
        f.debug_struct("Filters").field("instructions", &lengths).finish()
    }
}

/// Compiles a plan. The canary's answer is added to every plan.
///
/// # Errors
/// A plan that is out of range or too long; a rule that would change nothing.
pub fn compile(plan: &FilterPlan) -> Result<Filters, SeccompError> {
    let canary = canary_rule().ok_or(SeccompError::Architecture(std::env::consts::ARCH))?;
    let rules: Vec<&CallRule> = std::iter::once(&canary).chain(&plan.rules).collect();
    let errno_fits = |action| !matches!(action, Action::Errno(errno) if !(1..=MAX_ERRNO).contains(&errno));
    // Errno 0 would be a success that does nothing, the worst of answers.
    if let Some(rule) = rules.iter().find(|rule| !errno_fits(rule.action)) {
        return Err(SeccompError::OutOfRange(rule.number));
    }
    if !errno_fits(plan.default) {
        return Err(SeccompError::OutOfRange(-1));
    }
    let mut programs = Vec::new();
    // What is installed later is asked first.
    for layer in layers(&rules, plan.default).iter().rev() {
        programs.push(program(layer.rules.iter().copied(), Action::Allow, layer.action)?);
    }
    if plan.default == Action::Allow {
        if let Some(rule) = rules.iter().find(|rule| rule.action == Action::Allow) {
            return Err(SeccompError::PointlessAllow(rule.number));
        }
    } else {
        // Last: it refuses `seccomp` itself. What another program answers must get past it, so it is let through here.
        let let_through = rules.iter().filter(|rule| rule.action != plan.default);
        programs.push(program(let_through.copied(), plan.default, Action::Allow)?);
    }
    Ok(Filters { programs })
}

impl Filters {
    /// Puts the filter in force for this thread and what it starts; sets no_new_privs, which the kernel asks for. There is
    /// no way back, and after an allow-list none to install more.
    ///
    /// # Errors
    /// The kernel refused a program. Those before it are in force.
    pub fn install(&self) -> Result<(), SeccompError> {
        for program in &self.programs {
            seccompiler::apply_filter(program)?;
        }
        Ok(())
    }

    /// Instructions of all programs together.
    #[must_use]
    pub fn instructions(&self) -> usize {
        self.programs.iter().map(Vec::len).sum()
    }
}

/// Is a filter of ours in force on this thread? Asks the kernel by a call whose answer only our filters give, so a
/// `seccomp` that says yes and does nothing is found out.
#[must_use]
pub fn canary() -> bool {
    crate::sys::keyctl_canary() == CANARY_ERRNO
}

fn canary_rule() -> Option<CallRule> {
    let test = ArgTest { index: 0, wide: false, op: ArgOp::Eq, value: CANARY_OPERATION };
    Some(CallRule { number: sysnum::number("keyctl")?, action: Action::Errno(CANARY_ERRNO), when: vec![vec![test]] })
}

/// Rules of one answer that can share a program.
struct Layer<'a> {
    action: Action,
    rules: Vec<&'a CallRule>,
}

/// The refusing rules as layers, the one that is asked first in front. A rule may join an older layer of its answer only
/// behind every earlier rule of the same call with another answer: so the first rule of a call wins.
fn layers<'a>(rules: &[&'a CallRule], default: Action) -> Vec<Layer<'a>> {
    let mut layers: Vec<Layer<'a>> = Vec::new();
    for rule in rules.iter().filter(|rule| rule.action != Action::Allow && rule.action != default) {
        let conflicts =
            |layer: &Layer<'_>| layer.action != rule.action && layer.rules.iter().any(|old| old.number == rule.number);
        let from = layers.iter().rposition(conflicts).map_or(0, |index| index + 1);
        match layers.iter_mut().skip(from).find(|layer| layer.action == rule.action) {
            Some(layer) => layer.rules.push(rule),
            None => layers.push(Layer { action: rule.action, rules: vec![rule] }),
        }
    }
    layers
}

/// One program: `hit` for what matches one of the rules, `miss` for the rest.
fn program<'a>(
    rules: impl Iterator<Item = &'a CallRule>,
    miss: Action,
    hit: Action,
) -> Result<BpfProgram, SeccompError> {
    let mut chains: BTreeMap<i64, Option<Vec<SeccompRule>>> = BTreeMap::new();
    for rule in rules {
        if !(0..i64::from(X32)).contains(&rule.number) {
            return Err(SeccompError::OutOfRange(rule.number));
        }
        // None: always. That absorbs every condition, whichever comes first.
        let chain = chains.entry(rule.number).or_insert_with(|| Some(Vec::new()));
        match chain {
            Some(chain) if !rule.when.is_empty() => {
                for tests in &rule.when {
                    chain.push(conjunction(rule.number, tests)?);
                }
            }
            _ => *chain = None,
        }
    }
    let chains = chains.into_iter().map(|(number, chain)| (number, chain.unwrap_or_default())).collect();
    let arch =
        TargetArch::try_from(std::env::consts::ARCH).map_err(|_| SeccompError::Architecture(std::env::consts::ARCH))?;
    let mut program: BpfProgram = SeccompFilter::new(chains, answer(miss), answer(hit), arch)?.try_into()?;
    guard_x32(&mut program)?;
    if program.len() > MAX_INSTRUCTIONS { Err(SeccompError::TooLong(program.len())) } else { Ok(program) }
}

fn conjunction(number: i64, tests: &[ArgTest]) -> Result<SeccompRule, SeccompError> {
    let mut conditions = Vec::with_capacity(tests.len());
    for test in tests {
        let mask = if let ArgOp::Masked(mask) = test.op { mask } else { 0 };
        if !test.wide && (test.value > u64::from(u32::MAX) || mask > u64::from(u32::MAX)) {
            return Err(SeccompError::OutOfRange(number));
        }
        let width = if test.wide { SeccompCmpArgLen::Qword } else { SeccompCmpArgLen::Dword };
        let op = match test.op {
            ArgOp::Eq => SeccompCmpOp::Eq,
            ArgOp::Ne => SeccompCmpOp::Ne,
            ArgOp::Ge => SeccompCmpOp::Ge,
            ArgOp::Gt => SeccompCmpOp::Gt,
            ArgOp::Le => SeccompCmpOp::Le,
            ArgOp::Lt => SeccompCmpOp::Lt,
            ArgOp::Masked(mask) => SeccompCmpOp::MaskedEq(mask),
        };
        conditions.push(SeccompCondition::new(test.index, width, op, test.value)?);
    }
    // An empty conjunction is refused by the compiler: it would mean "always" where a condition was meant.
    Ok(SeccompRule::new(conditions)?)
}

fn answer(action: Action) -> SeccompAction {
    match action {
        Action::Allow => SeccompAction::Allow,
        Action::Errno(errno) => SeccompAction::Errno(errno.unsigned_abs()),
        Action::Kill => SeccompAction::KillProcess,
    }
}

/// Puts three instructions behind the architecture check: load the number; at or above the x32 bit answer ENOSYS.
#[cfg(target_arch = "x86_64")]
fn guard_x32(program: &mut BpfProgram) -> Result<(), SeccompError> {
    const LOAD_WORD: u16 = 0x20;
    const JUMP_IF_AT_LEAST: u16 = 0x35;
    const RETURN: u16 = 0x06;
    const KILL_PROCESS: u32 = 0x8000_0000;
    const ERRNO_ENOSYS: u32 = 0x0005_0000 | 38;
    match program.get(2) {
        Some(kill) if kill.code == RETURN && kill.k == KILL_PROCESS => {}
        _ => return Err(SeccompError::Shape),
    }
    let guard = [
        sock_filter { code: LOAD_WORD, jt: 0, jf: 0, k: 0 },
        sock_filter { code: JUMP_IF_AT_LEAST, jt: 0, jf: 1, k: X32 },
        sock_filter { code: RETURN, jt: 0, jf: 0, k: ERRNO_ENOSYS },
    ];
    program.splice(3..3, guard);
    Ok(())
}

/// Other architectures have no second ABI behind the same architecture number.
#[cfg(not(target_arch = "x86_64"))]
fn guard_x32(_: &mut BpfProgram) -> Result<(), SeccompError> {
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rule(name: &str, action: Action, when: Vec<Vec<ArgTest>>) -> CallRule {
        CallRule { number: sysnum::number(name).unwrap(), action, when }
    }

    fn eq(value: u64) -> ArgTest {
        ArgTest { index: 0, wide: false, op: ArgOp::Eq, value }
    }

    #[test]
    fn one_program_an_answer() {
        let plan = FilterPlan {
            default: Action::Allow,
            rules: vec![
                rule("mount", Action::Errno(1), vec![]),
                rule("clone3", Action::Errno(38), vec![]),
                rule("ptrace", Action::Errno(1), vec![]),
            ],
        };
        // EPERM, ENOSYS and the canary's.
        assert_eq!(compile(&plan).unwrap().programs.len(), 3);
        // The first rule of a call wins, so EPERM needs a second program behind ENOSYS.
        let mut crossed = plan.clone();
        crossed.rules.push(rule("clone3", Action::Errno(1), vec![]));
        assert_eq!(compile(&crossed).unwrap().programs.len(), 4);
        let closed = FilterPlan { default: Action::Errno(1), rules: vec![rule("read", Action::Allow, vec![])] };
        assert_eq!(compile(&closed).unwrap().programs.len(), 2);
    }

    #[test]
    fn slips_do_not_compile() {
        let plan = |default, rule| FilterPlan { default, rules: vec![rule] };
        let pointless = plan(Action::Allow, rule("read", Action::Allow, vec![]));
        assert!(matches!(compile(&pointless), Err(SeccompError::PointlessAllow(_))));
        let deny = Action::Errno(1);
        for bad in [
            CallRule { number: -1, action: deny, when: vec![] },
            CallRule { number: 0x4000_0000, action: deny, when: vec![] },
            rule("read", Action::Errno(0), vec![]),
            rule("read", Action::Errno(-1), vec![]),
            rule("read", Action::Errno(4096), vec![]),
            rule("read", deny, vec![vec![]]),
            rule("read", deny, vec![vec![eq(1 << 32)]]),
            rule("read", deny, vec![vec![ArgTest { index: 6, ..eq(1) }]]),
            rule("read", deny, vec![vec![ArgTest { op: ArgOp::Masked(1 << 40), ..eq(0) }]]),
        ] {
            assert!(compile(&plan(Action::Allow, bad.clone())).is_err(), "{bad:?}");
        }
        let many = (0..3000).map(|value| vec![eq(value)]).collect();
        assert!(compile(&plan(Action::Allow, rule("read", deny, many))).is_err());
    }

    #[test]
    fn always_absorbs_conditions() {
        let both = |first: Vec<Vec<ArgTest>>, second| {
            let rules = vec![rule("read", Action::Errno(1), first), rule("read", Action::Errno(1), second)];
            compile(&FilterPlan { default: Action::Allow, rules }).unwrap().instructions()
        };
        let always = both(vec![], vec![]);
        assert_eq!(both(vec![vec![eq(1)]], vec![]), always);
        assert_eq!(both(vec![], vec![vec![eq(1)]]), always);
        assert_ne!(both(vec![vec![eq(1)]], vec![vec![eq(2)]]), always);
    }
}
