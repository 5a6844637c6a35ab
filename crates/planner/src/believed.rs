//! How far the sizes in a status are believed. Whoever may patch the status can write any: see also `corrected`.

use std::borrow::Cow;
use std::collections::BTreeMap;

use crate::inventory::Inventory;

/// Stored sizes, in which the set that an abort rolls back to has the pods of the sets that take no part in the rollout (any more).
pub(crate) fn sizes<'c>(
    inventory: &Inventory<'_>,
    sizes: &'c BTreeMap<String, i32>,
) -> Cow<'c, BTreeMap<String, i32>> {
    let is_out = |(hash, size): &(&String, &i32)| **size > 0 && !inventory.takes_part(hash);
    let exists = |hash: &str| inventory.usable_sets().any(|set| set.hash == hash);
    let out: i32 = sizes
        .iter()
        .filter(is_out)
        .filter(|(hash, _)| exists(hash))
        .fold(0, |sum, (_, size)| size.saturating_add(sum));
    let back = inventory.back.filter(|back| out > 0 && inventory.takes_part(&back.hash));
    let Some(back) = back.filter(|back| !inventory.is_current_set(&back.uid)) else {
        return Cow::Borrowed(sizes);
    };
    let mut believed = sizes.clone();
    believed.retain(|hash, _| inventory.takes_part(hash) || !exists(hash));
    let size = believed.entry(back.hash.clone()).or_default();
    *size = size.saturating_add(out);
    Cow::Owned(believed)
}
