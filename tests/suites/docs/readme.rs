//! The `sh` blocks of the README have commands that `.ci/run` runs.

use std::path::Path;

fn read(path: &str) -> String {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    std::fs::read_to_string(root.join(path)).unwrap()
}

/// The lines of all `sh` blocks.
fn commands(markdown: &str) -> Vec<&str> {
    let blocks = markdown.split("```sh\n").skip(1);
    blocks
        .flat_map(|block| block.split("```").next().unwrap().lines())
        .collect()
}

/// What the steps run, without their time limits.
fn steps(script: &str) -> Vec<&str> {
    let steps = script.lines().filter_map(|line| line.strip_prefix("step "));
    steps
        .filter_map(|step| step.split_once(' '))
        .map(|(_minutes, command)| command)
        .collect()
}

#[test]
fn ci_runs_the_commands_of_the_readme_as_they_stand_there() {
    let (readme, script) = (read("README.md"), read(".ci/run"));
    let (commands, steps) = (commands(&readme), steps(&script));
    assert!(!commands.is_empty());
    for command in commands {
        assert!(steps.contains(&command), "`{command}` is not in {steps:?}");
    }
}
