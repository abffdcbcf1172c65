//! `sayso.v1.BudgetService`.

use sayso_driver::Journal;
use sayso_run::{BadMoney, Money};
use sayso_service::error::{Coded, Kind};
use sayso_store::{BudgetRow, MonthlySpend};
use sayso_wire::time::timestamp;
use sayso_wire::v1::budget_service_server::BudgetService;
use sayso_wire::{code, v1};
use serde_json::{Value, json};
use tonic::{Request, Response, Status};

use super::Api;
use crate::auth::Session;
use crate::{Shared, audit, refuse};

/// How many months and currencies are shown.
const MONTHS: u32 = 12;

#[tonic::async_trait]
impl BudgetService for Api {
    async fn set_budget(
        &self,
        request: Request<v1::SetBudgetRequest>,
    ) -> Result<Response<v1::SetBudgetResponse>, Status> {
        let session = Session::of(&request);
        let cap: Result<Money, BadMoney> = request.get_ref().cap.parse();
        let cap = cap.map_err(malformed)?;
        let caller = session.caller();
        let budgets = self.0.store.budgets();
        let before = budgets.set(&caller.namespace, cap, &caller.principal).await;
        let before = before.map_err(|error| refuse::database("setting the budget", error))?;
        let details = json!({
            "cap": cap.to_string(),
            "before": before.map(|before| before.cap.to_string()),
        });
        record(&self.0, &session, "budget.set", details).await?;
        let budget = budget(&self.0, &session).await?;
        Ok(Response::new(v1::SetBudgetResponse { budget }))
    }

    async fn get_budget(
        &self,
        request: Request<v1::GetBudgetRequest>,
    ) -> Result<Response<v1::GetBudgetResponse>, Status> {
        let session = Session::of(&request);
        let namespace = &session.caller().namespace;
        let months = self.0.store.budgets().spent(namespace, MONTHS).await;
        let months = months.map_err(|error| refuse::database("reading the budget", error))?;
        Ok(Response::new(v1::GetBudgetResponse {
            budget: budget(&self.0, &session).await?,
            months: months.into_iter().map(month).collect(),
        }))
    }

    async fn remove_budget(
        &self,
        request: Request<v1::RemoveBudgetRequest>,
    ) -> Result<Response<v1::RemoveBudgetResponse>, Status> {
        let session = Session::of(&request);
        let removed = self
            .0
            .store
            .budgets()
            .remove(&session.caller().namespace)
            .await;
        let removed = removed.map_err(|error| refuse::database("removing the budget", error))?;
        let BudgetRow { cap, .. } = removed.ok_or_else(no_budget)?;
        let cap = cap.to_string();
        record(&self.0, &session, "budget.remove", json!({ "cap": cap })).await?;
        Ok(Response::new(v1::RemoveBudgetResponse { cap }))
    }
}

/// The cap of the caller's namespace as it stands.
async fn budget(shared: &Shared, session: &Session) -> Result<Option<v1::Budget>, Coded> {
    let namespace = &session.caller().namespace;
    let failed = |error| refuse::database("reading the budget", error);
    let budgets = shared.store.budgets();
    let Some(row) = budgets.get(namespace).await.map_err(failed)? else {
        return Ok(None);
    };
    let standing = budgets.standing(namespace, shared.store.now()).await;
    Ok(standing.map_err(failed)?.map(|standing| v1::Budget {
        cap: standing.cap.to_string(),
        spent: standing.spent.to_string(),
        resets_at: Some(timestamp(standing.resets_at)),
        set_by: row.set_by.to_string(),
        set_at: Some(timestamp(row.set_at)),
    }))
}

fn month(spend: MonthlySpend) -> v1::MonthlySpend {
    v1::MonthlySpend {
        month: spend.month,
        spent: spend
            .spent
            .map(|spent| spent.to_string())
            .unwrap_or_default(),
        answers: spend.answers,
        input_tokens: spend.tokens_input,
        output_tokens: spend.tokens_output,
    }
}

/// Writes down who changed the cap (S10.8).
async fn record(
    shared: &Shared,
    session: &Session,
    action: &'static str,
    details: Value,
) -> Result<(), Coded> {
    let caller = session.caller();
    let (store, key, actor) = (&shared.store, &shared.key, audit::actor(caller));
    let (namespace, subject) = (&caller.namespace, caller.namespace.as_str());
    let done = audit::done(store, key, namespace, &actor, action, subject, details);
    done.await.map_err(audit::failed)
}

fn malformed(bad: BadMoney) -> Coded {
    Coded::new(
        Kind::Invalid,
        code::BUDGET_MALFORMED,
        "The cap is not an amount; write it as in `100 USD`.",
    )
    .field("cap", bad.to_string())
}

fn no_budget() -> Coded {
    Coded::new(
        Kind::NotFound,
        code::BUDGET_NOT_FOUND,
        "The namespace has no spending cap; `sayso budget set` sets one.",
    )
}
