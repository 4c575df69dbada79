//! Which worker a key belongs to: the workers that are wanted, by number, and `millpond_policy::affinity` over them.
//!
//! Workers that stand in for others own no keys: they come and go with every wait. Sticky keys are remembered here if
//! that was asked for.
//!
//! Not here: what happens when the worker has no room (`route.rs`), and who else may take the task (`worker/steal.rs`).

use crate::counters::AffinityCounts;
use millpond_policy::affinity::{Affinity, AffinitySettings, Sticky};
use millpond_policy::{BadSetting, Moment};
use std::sync::{Mutex, PoisonError, RwLock, RwLockReadGuard};

#[derive(Debug)]
pub(crate) struct Keys {
    owners: RwLock<Affinity>,
    sticky: Option<Mutex<Sticky>>,
    pub(crate) counts: AffinityCounts,
}

impl Keys {
    pub(crate) fn new(settings: &AffinitySettings) -> Result<Self, BadSetting> {
        let sticky = settings.sticky_for.map(|life| Sticky::new(settings.sticky_keys_max, life));
        Ok(Self {
            owners: RwLock::new(Affinity::new(settings)?),
            sticky: sticky.transpose()?.map(Mutex::new),
            counts: AffinityCounts::default(),
        })
    }

    /// From now on the first `wanted` workers own the keys.
    pub(crate) fn resize(&self, wanted: usize, now: Moment) {
        let mut owners = self.owners.write().unwrap_or_else(PoisonError::into_inner);
        for worker in owners.len()..wanted {
            owners.add(worker as u32);
        }
        if owners.len() > wanted
            && let Some(sticky) = &self.sticky
        {
            let mut sticky = sticky.lock().unwrap_or_else(PoisonError::into_inner);
            sticky.forget_workers(|worker| worker as usize >= wanted, now);
        }
        for worker in wanted..owners.len() {
            owners.remove(worker as u32);
        }
    }

    /// The worker a key belongs to. `now` is asked for only if keys are sticky.
    pub(crate) fn owner(&self, key: u64, now: impl FnOnce() -> Moment) -> Option<usize> {
        let owners = self.owners();
        let owner = match &self.sticky {
            None => owners.owner(key)?,
            Some(sticky) => {
                let mut sticky = sticky.lock().unwrap_or_else(PoisonError::into_inner);
                sticky.route(key, &owners, now())?.0
            }
        };
        Some(owner as usize)
    }

    fn owners(&self) -> RwLockReadGuard<'_, Affinity> {
        self.owners.read().unwrap_or_else(PoisonError::into_inner)
    }
}
