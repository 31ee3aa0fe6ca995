//! **What this room is for:** a [`FilterPlan`] compiled to BPF programs and put in force. **Who may enter:** `confine::enter`,
//! tests. **Never done here:** choosing what is refused (the profiles do). **Where the proof is:** `tests/profiles.rs` makes
//! every call of every profile behind its filter.
//!
//! `seccompiler` gives a filter one answer for all that match and tests call after call in a row. So each call's rules are
//! compiled by it one by one and joined here: per call a chain in which the first rule that matches answers (kill before
//! error before allow), and over the calls a binary tree. One program, one installation; the kernel walks every program
//! for every call number when it is installed, and a row of eighty calls took 0.4 ms there, the tree takes 0.1.
//!
//! The program begins with the architecture check (`int 0x80` and other foreign calls: the process is killed) and, on
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

// Classic BPF, as in linux/bpf_common.h, and the answers of linux/seccomp.h.
const LOAD_WORD: u16 = 0x20;
const JUMP: u16 = 0x05;
const JUMP_IF_EQUAL: u16 = 0x15;
const JUMP_IF_AT_LEAST: u16 = 0x35;
const RETURN: u16 = 0x06;
const KILL_PROCESS: u32 = 0x8000_0000;
const ERRNO_ENOSYS: u32 = 0x0005_0000 | 38;
/// Where the call's number is in what a filter sees (`seccomp_data.nr`).
const NUMBER: u32 = 0;
/// Instructions of the architecture check and the load of the number.
const HEAD: usize = 4;

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

/// A compiled filter.
#[derive(Clone)]
pub struct Filters {
    program: BpfProgram,
}

impl std::fmt::Debug for Filters {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Filters").field("instructions", &self.program.len()).finish()
    }
}

/// Compiles a plan. The canary's answer is added to every plan.
///
/// # Errors
/// A plan that is out of range or too long; a rule that would change nothing.
pub fn compile(plan: &FilterPlan) -> Result<Filters, SeccompError> {
    let canary = canary_rule().ok_or(SeccompError::Architecture(std::env::consts::ARCH))?;
    let mut calls: BTreeMap<u32, Vec<&CallRule>> = BTreeMap::new();
    for rule in std::iter::once(&canary).chain(&plan.rules) {
        let number = u32::try_from(rule.number).ok().filter(|number| *number < X32);
        match number {
            Some(number) if errno_fits(rule.action) => calls.entry(number).or_default().push(rule),
            _ => return Err(SeccompError::OutOfRange(rule.number)),
        }
        if plan.default == Action::Allow && rule.action == Action::Allow {
            return Err(SeccompError::PointlessAllow(rule.number));
        }
    }
    if !errno_fits(plan.default) {
        return Err(SeccompError::OutOfRange(-1));
    }
    let mut leaves = Vec::with_capacity(calls.len());
    for (number, mut rules) in calls {
        rules.sort_by_key(|rule| match rule.action {
            Action::Kill => 0,
            Action::Errno(_) => 1,
            Action::Allow => 2,
        });
        leaves.push((number, leaf(&rules, plan.default)?));
    }
    let mut program = entry()?;
    program.extend(tree(&leaves)?);
    if program.len() > MAX_INSTRUCTIONS { Err(SeccompError::TooLong(program.len())) } else { Ok(Filters { program }) }
}

impl Filters {
    /// Puts the filter in force for this thread and what it starts; sets no_new_privs, which the kernel asks for. There is
    /// no way back, and after an allow-list none to install more.
    ///
    /// # Errors
    /// The kernel refused the program; nothing is in force then.
    pub fn install(&self) -> Result<(), SeccompError> {
        Ok(seccompiler::apply_filter(&self.program)?)
    }

    /// Instructions of the program.
    #[must_use]
    pub fn instructions(&self) -> usize {
        self.program.len()
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

/// Errno 0 would be a success that does nothing, the worst of answers.
fn errno_fits(action: Action) -> bool {
    !matches!(action, Action::Errno(errno) if !(1..=MAX_ERRNO).contains(&errno))
}

/// What `seccompiler` makes of one rule on one call: the architecture check and the load of the number, and the body.
/// The body ends in two returns of `miss`: no test of the rule matched; it is another call.
fn compiled(rule: &CallRule, miss: SeccompAction) -> Result<(BpfProgram, BpfProgram), SeccompError> {
    let arch = std::env::consts::ARCH;
    let target = TargetArch::try_from(arch).map_err(|_| SeccompError::Architecture(arch))?;
    let tests: Vec<SeccompRule> =
        rule.when.iter().map(|tests| conjunction(rule.number, tests)).collect::<Result<_, _>>()?;
    let chains = BTreeMap::from([(rule.number, tests)]);
    let miss_value = u32::from(miss.clone());
    let mut head: BpfProgram = SeccompFilter::new(chains, miss, answer(rule.action), target)?.try_into()?;
    let fits = matches!(head.get(..HEAD), Some([_, _, kill, load])
        if (kill.code, kill.k) == (RETURN, KILL_PROCESS) && (load.code, load.k) == (LOAD_WORD, NUMBER));
    let ends = matches!(head.get(HEAD..), Some([.., a, b])
        if (a.code, a.k) == (RETURN, miss_value) && (b.code, b.k) == (RETURN, miss_value));
    if !fits || !ends {
        return Err(SeccompError::Shape);
    }
    let body = head.split_off(HEAD);
    Ok((head, body))
}

/// All rules of one call: each body's two returns of "no match" lead on to the next body, those of the last one stay.
fn leaf(rules: &[&CallRule], default: Action) -> Result<BpfProgram, SeccompError> {
    let mut program = BpfProgram::new();
    for rule in rules {
        if rule.when.is_empty() {
            // No test: two instructions instead of seven, for most calls of a plan. Nothing behind it can match.
            let number = u32::try_from(rule.number).map_err(|_| SeccompError::OutOfRange(rule.number))?;
            program.push(sock_filter { code: JUMP_IF_EQUAL, jt: 0, jf: 1, k: number });
            program.push(statement(RETURN, u32::from(answer(rule.action))));
            break;
        }
        if rule.action == default {
            // The default is the answer as well. It is needed where a later allow rule would match too.
            program.extend(joined(compiled(rule, SeccompAction::Trap)?.1));
        } else {
            program.extend(joined(compiled(rule, answer(default))?.1));
        }
    }
    program.push(statement(RETURN, u32::from(answer(default))));
    Ok(program)
}

/// A body that goes on behind its end, with the call's number loaded again, where it returned "no match".
fn joined(mut body: BpfProgram) -> BpfProgram {
    body.truncate(body.len().saturating_sub(2));
    body.extend([statement(JUMP, 0), statement(LOAD_WORD, NUMBER)]);
    body
}

/// A binary tree over leaves in the order of their numbers; the number is loaded.
fn tree(leaves: &[(u32, BpfProgram)]) -> Result<BpfProgram, SeccompError> {
    let (left, right) = leaves.split_at(leaves.len() / 2);
    match (left, right) {
        ([], [(_, leaf)]) => Ok(leaf.clone()),
        (_, [(pivot, _), ..]) => {
            let (left, right) = (tree(left)?, tree(right)?);
            let over = u32::try_from(left.len()).map_err(|_| SeccompError::TooLong(left.len()))?;
            // A conditional jump reaches 255 instructions; an unconditional one any distance.
            let mut program =
                vec![sock_filter { code: JUMP_IF_AT_LEAST, jt: 0, jf: 1, k: *pivot }, statement(JUMP, over)];
            program.extend(left);
            program.extend(right);
            Ok(program)
        }
        _ => Err(SeccompError::Shape),
    }
}

/// The beginning: the architecture check, the load of the number, the x32 guard.
pub(super) fn entry() -> Result<BpfProgram, SeccompError> {
    let rule = canary_rule().ok_or(SeccompError::Architecture(std::env::consts::ARCH))?;
    let (mut program, _) = compiled(&rule, SeccompAction::Allow)?;
    // Other architectures have no second ABI behind the same architecture number.
    if cfg!(target_arch = "x86_64") {
        program.push(sock_filter { code: JUMP_IF_AT_LEAST, jt: 0, jf: 1, k: X32 });
        program.push(statement(RETURN, ERRNO_ENOSYS));
    }
    Ok(program)
}

fn statement(code: u16, k: u32) -> sock_filter {
    sock_filter { code, jt: 0, jf: 0, k }
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

#[cfg(test)]
mod tests {
    use super::*;

    fn rule(name: &str, action: Action, when: Vec<Vec<ArgTest>>) -> CallRule {
        CallRule { number: sysnum::number(name).unwrap(), action, when }
    }

    fn eq(value: u64) -> ArgTest {
        ArgTest { index: 0, wide: false, op: ArgOp::Eq, value }
    }

    /// Runs a program as the kernel does: the answer for a call.
    fn run(filters: &Filters, number: u32, args: [u64; 6]) -> u32 {
        let arch = 0xC000_003E_u32;
        let (mut at, mut a) = (0, 0_u32);
        loop {
            let step = &filters.program[at];
            at += 1;
            match step.code {
                LOAD_WORD => {
                    a = match step.k {
                        0 => number,
                        4 => arch,
                        k => {
                            let arg = args[(k as usize - 16) / 8];
                            u32::try_from(if k % 8 == 0 { arg & 0xffff_ffff } else { arg >> 32 }).unwrap()
                        }
                    }
                }
                0x54 => a &= step.k,
                JUMP => at += step.k as usize,
                RETURN => return step.k,
                code => {
                    let yes = match code {
                        JUMP_IF_EQUAL => a == step.k,
                        0x25 => a > step.k,
                        JUMP_IF_AT_LEAST => a >= step.k,
                        _ => panic!("instruction {code:#x}"),
                    };
                    at += usize::from(if yes { step.jt } else { step.jf });
                }
            }
        }
    }

    const ALLOW: u32 = 0x7fff_0000;
    const ERRNO: u32 = 0x0005_0000;

    #[test]
    #[cfg(target_arch = "x86_64")]
    fn the_first_refusal_answers_and_kill_is_before_all() {
        let when = |value| vec![vec![eq(value)]];
        let rules = vec![
            rule("read", Action::Allow, vec![]),
            rule("read", Action::Errno(38), when(1)),
            rule("read", Action::Errno(13), vec![vec![eq(2)], vec![eq(1)]]),
            rule("read", Action::Errno(1), when(3)),
            rule("read", Action::Kill, when(4)),
            rule("write", Action::Errno(13), when(1)),
            rule("exit", Action::Allow, when(1)),
        ];
        let filters = compile(&FilterPlan { default: Action::Errno(1), rules }).unwrap();
        let answers = |number, first| run(&filters, number, [first, 9, 9, 9, 9, 9]);
        assert_eq!(
            [0, 1, 2, 3, 4, 5].map(|first| answers(0, first)),
            [ALLOW, ERRNO | 38, ERRNO | 13, ERRNO | 1, KILL_PROCESS, ALLOW]
        );
        assert_eq!([1, 2].map(|first| answers(1, first)), [ERRNO | 13, ERRNO | 1]);
        assert_eq!([1, 2].map(|first| answers(60, first)), [ALLOW, ERRNO | 1]);
        assert_eq!([2, 59, 61, 500].map(|number| answers(number, 1)), [ERRNO | 1; 4]);
        assert_eq!(answers(250, CANARY_OPERATION), ERRNO | 120);
        assert_eq!([X32, X32 + 1, u32::MAX].map(|number| answers(number, 1)), [ERRNO_ENOSYS; 3]);
    }

    #[test]
    #[cfg(target_arch = "x86_64")]
    fn every_call_finds_its_leaf() {
        for count in [1_u32, 2, 3, 7, 64, 200] {
            let deny = |number: u32| CallRule { number: i64::from(number * 2), action: Action::Errno(1), when: vec![] };
            let filters =
                compile(&FilterPlan { default: Action::Allow, rules: (0..count).map(deny).collect() }).unwrap();
            for number in 0..=500 {
                let is = number % 2 == 0 && number / 2 < count;
                assert_eq!(run(&filters, number, [0; 6]) == ERRNO | 1, is, "{count} {number}");
            }
        }
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
}
