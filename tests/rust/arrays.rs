//! Arrays of models that say more than a model holds are refused, not read in part.

use treekernel_rs::dag::{Model, ModelArrays, ModelOptions};
use treekernel_rs::kernel::SubsetTree;
use treekernel_rs::{Error, Forest};

fn refused(options: ModelOptions, array: &str, change: impl Fn(&mut ModelArrays)) {
    let kernel = SubsetTree::new(0.4);
    let mut model = Model::new(&kernel, options).unwrap();
    let forest = Forest::from_brackets("(S (A a) (B b)) (S (A a) (A a))").unwrap();
    model.add(&forest, &[1.0, -1.0]).unwrap();
    let mut arrays = model.to_arrays();
    let again = Model::from_arrays(&kernel, options, &arrays).unwrap();
    assert_eq!(again.to_arrays(), arrays);
    change(&mut arrays);
    let error = Model::from_arrays(&kernel, options, &arrays).unwrap_err();
    assert!(matches!(&error, Error::Length { array: a, .. } if *a == array), "{error}");
}

#[test]
fn children_beyond_the_last_end_are_refused() {
    refused(ModelOptions::default(), "children", |arrays| arrays.children.push(0));
}

#[test]
fn large_trees_are_of_normalised_models_with_a_weight_each() {
    let large = |arrays: &mut ModelArrays| {
        arrays.large_trees = Forest::from_brackets("(S (A a))").unwrap();
    };
    refused(ModelOptions::default(), "large_trees", large);
    refused(ModelOptions::default().with_normalize(true), "large_alphas", large);
}
