//! What holds of all public functions, read from the sources.

use std::fs;
use std::path::{Path, PathBuf};

/// The files of the library, without the bindings.
fn sources(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() && !path.ends_with("python") {
            sources(&path, found);
        } else if path.extension().is_some_and(|end| end == "rs") {
            found.push(path);
        }
    }
}

/// The name, the parameters and the body of each public function. Those of a macro are no
/// functions.
fn functions(text: &str) -> impl Iterator<Item = (&str, &str, &str)> {
    text.split("pub fn ").skip(1).map(|rest| {
        let name = rest.split(['(', '<']).next().unwrap();
        let (parameters, rest) = rest.split_once(" {\n").unwrap_or((rest, ""));
        let end =
            [rest.find("\n    }\n"), rest.find("\n}\n")].into_iter().flatten().min();
        (name, parameters, &rest[..end.unwrap_or(rest.len())])
    })
}

#[test]
fn every_call_in_a_context_has_a_form_without() {
    let mut files = Vec::new();
    sources(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../../src"), &mut files);
    let mut n_calls = 0;
    for file in files {
        let text = fs::read_to_string(&file).unwrap();
        let twins = |wanted: &str| -> Vec<_> {
            // Other types of the file may have such a function as well.
            functions(&text).filter(|function| function.0 == wanted).collect()
        };
        let in_context = functions(&text).filter(|f| f.1.contains("context: &Context"));
        for (name, ..) in in_context {
            let plain = name.strip_suffix("_with").unwrap_or("no form without _with");
            let plain = twins(plain);
            assert!(plain.len() >= twins(name).len(), "{name} of {}", file.display());
            // It asks the other one, and nothing else; or it panics where that fails.
            for (plain, told, body) in plain {
                let is_call = body.contains(&format!("{name}("))
                    && body.contains("&Context::default())")
                    && body.lines().count() < 8;
                let fails = told.contains("-> Result");
                assert!(is_call || !fails, "{plain} of {}: {body}", file.display());
            }
            n_calls += 1;
        }
    }
    assert!(n_calls > 50, "{n_calls}");
}
