//! Whether the file system under a file of locks keeps the locks of SQLite, for all processes that may see the file.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use rustix::fs::{major, minor, statfs};

/// What is known of a file system.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// A kernel has it alone, and keeps the locks.
    Local,
    /// The same, but containers see layers of their own, which end with them.
    Overlay,
    /// Other machines may have it too, and their locks may not be seen here.
    Shared(&'static str),
    /// A program serves it, of which nothing is known.
    Program,
}

/// Whether a file may be on a file system where locks may not hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FileSystems {
    Safe,
    /// The user insists.
    Any,
}

impl FileSystems {
    pub(crate) fn insisted(any: bool) -> Self {
        match any {
            true => FileSystems::Any,
            false => FileSystems::Safe,
        }
    }
}

/// The file systems of several machines, by the numbers that the kernel gives them.
const SHARED: [(u64, &str); 18] = [
    (0x6969, "NFS"),
    (0x517b, "SMB"),
    (0xff53_4d42, "CIFS"),
    (0xfe53_4d42, "SMB"),
    (0x0102_1997, "9P"),
    (0x00c3_6400, "Ceph"),
    (0x0bd0_0bd0, "Lustre"),
    (0x5346_414f, "AFS"),
    (0x6b41_4653, "AFS"),
    (0x7375_7245, "Coda"),
    (0x564c, "NCP"),
    (0x0116_1970, "GFS2"),
    (0x7461_636f, "OCFS2"),
    (0x4750_4653, "GPFS"),
    (0x1983_0326, "BeeGFS"),
    (0x786f_4256, "a folder of VirtualBox"),
    (0xbacb_acbc, "a folder of VMware"),
    (0x7c7c_6673, "a folder of Parallels"),
];
/// The file systems of disks that one kernel mounts, by the same numbers: ext4, XFS, Btrfs, F2FS, ZFS, Bcachefs.
const ONE_MACHINE: [u64; 6] = [
    0xef53,
    0x5846_5342,
    0x9123_683e,
    0xf2f5_2010,
    0x2fc1_2fc1,
    0xca45_1a4e,
];
const FUSE: u64 = 0x6573_5546;
const OVERLAY: u64 = 0x794c_7630;

/// Programs that serve a disk of this machine, and leave the locks to the kernel.
const LOCAL_PROGRAMS: [&str; 3] = ["fuseblk", "fuse-overlayfs", "fuse.fuse-overlayfs"];

/// The kind of the file's file system, or of its directory's if there is no file. Returns `None` if the system does not tell.
pub(crate) fn kind_of(file: &Path) -> Option<Kind> {
    let place = existing(file);
    Some(classified(number_of(&place)?, || program(&place)))
}

/// Whether only processes of this machine can have the file open, as far as its file system tells.
pub(super) fn is_of_one_machine(file: &Path) -> bool {
    number_of(&existing(file)).is_some_and(|number| ONE_MACHINE.contains(&number))
}

fn number_of(place: &Path) -> Option<u64> {
    // The kernel's numbers have 32 bits, in a type that some systems take for signed.
    Some(u64::from(statfs(place).ok()?.f_type as u32))
}

/// Explains why locks may not hold at this file. Returns `None` if they do.
pub(super) fn doubt(file: &Path) -> Option<String> {
    let what = match kind_of(file)? {
        Kind::Local | Kind::Overlay => return None,
        Kind::Shared(name) => format!("it is on {name}, which other machines may share"),
        Kind::Program => "it is on a file system that a program serves (FUSE)".to_owned(),
    };
    Some(format!(
        "{what}, and two processes may have one lock there: name a file on a disk of this machine, or insist by --any-filesystem"
    ))
}

fn classified(number: u64, program: impl FnOnce() -> Option<String>) -> Kind {
    let shared = SHARED.iter().find(|(shared, _)| *shared == number);
    match (shared, number) {
        (Some((_, name)), _) => Kind::Shared(name),
        (None, OVERLAY) => Kind::Overlay,
        (None, FUSE) => match program() {
            Some(name) if LOCAL_PROGRAMS.contains(&&*name) => Kind::Local,
            _ => Kind::Program,
        },
        (None, _) => Kind::Local,
    }
}

/// The file, or else the directory in which it would be made. Ends because it follows no more links than the system does.
fn existing(file: &Path) -> PathBuf {
    let mut file = file.to_owned();
    for _ in 0..40 {
        let target = match file.exists() {
            true => return file,
            false => fs::read_link(&file),
        };
        let beside = file.parent().unwrap_or(Path::new("")).to_owned();
        match target {
            Ok(target) => file = beside.join(target),
            Err(_) if beside == Path::new("") => return PathBuf::from("."),
            Err(_) => return beside,
        }
    }
    file
}

/// The name by which the kernel has the program's file system mounted.
fn program(place: &Path) -> Option<String> {
    let device = fs::metadata(place).ok()?.dev();
    let device = format!("{}:{}", major(device), minor(device));
    named(&fs::read_to_string("/proc/self/mountinfo").ok()?, &device)
}

fn named(mounts: &str, device: &str) -> Option<String> {
    mounts.lines().find_map(|line| {
        let is_it = line.split(' ').nth(2) == Some(device);
        let (_, behind) = line.split_once(" - ").filter(|_| is_it)?;
        behind.split(' ').next().map(str::to_owned)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_system_is_known_by_its_number() {
        for (number, program, kind) in [
            (0xef53, None, Kind::Local),
            (0x5846_5342, None, Kind::Local),
            (0x9123_683e, None, Kind::Local),
            (0x0102_1994, None, Kind::Local),
            (0x2fc1_2fc1, None, Kind::Local),
            (0x794c_7630, None, Kind::Overlay),
            (0x6969, None, Kind::Shared("NFS")),
            (0x517b, None, Kind::Shared("SMB")),
            (0xff53_4d42, None, Kind::Shared("CIFS")),
            (0xfe53_4d42, None, Kind::Shared("SMB")),
            (0x0102_1997, None, Kind::Shared("9P")),
            (0x00c3_6400, None, Kind::Shared("Ceph")),
            (0x6573_5546, None, Kind::Program),
            (0x6573_5546, Some("fuse.sshfs"), Kind::Program),
            (0x6573_5546, Some("virtiofs"), Kind::Program),
            (0x6573_5546, Some("fuseblk"), Kind::Local),
            (0x6573_5546, Some("fuse.fuse-overlayfs"), Kind::Local),
        ] {
            let found = classified(number, || program.map(str::to_owned));
            assert_eq!(found, kind, "{number:#x} {program:?}");
        }
    }

    #[test]
    fn a_program_is_found_by_the_device_of_its_mount() {
        let mounts = "\
25 1 254:1 / / rw,relatime shared:1 - ext4 /dev/vda1 rw
36 25 0:44 / /home/a/b\\040c rw,nosuid shared:9 - fuse.sshfs a@b: rw,user_id=0
";
        assert_eq!(named(mounts, "0:44").as_deref(), Some("fuse.sshfs"));
        assert_eq!(named(mounts, "0:4"), None);
    }

    #[test]
    fn a_file_that_is_not_there_yet_is_judged_by_where_it_would_be() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        assert_eq!(existing(&at("none.db")), folder.path());
        fs::create_dir(at("there")).unwrap();
        std::os::unix::fs::symlink("there/none.db", at("link.db")).unwrap();
        assert_eq!(existing(&at("link.db")), at("there"));
        assert_eq!(existing(Path::new("none.db")), Path::new("."));
        assert_eq!(kind_of(Path::new("/proc/none.db")), Some(Kind::Local));
        assert!(!is_of_one_machine(Path::new("/proc/none.db")));
    }
}
