use sayso_wire::v1;

use crate::{Client, Error};

/// The spending cap. Scopes and codes of refusals are those of `BudgetService`.
impl Client {
    /// Sets the cap of the namespace, as in `100 USD`.
    ///
    /// # Errors
    ///
    /// `budget.malformed`.
    pub async fn set_budget(&self, cap: &str) -> Result<v1::Budget, Error> {
        let cap = cap.to_owned();
        let answer = self
            .budgets()
            .set_budget(v1::SetBudgetRequest { cap })
            .await;
        let answer = answer.map_err(|status| self.failed(&status))?;
        answer
            .into_inner()
            .budget
            .ok_or(Error::Incomplete("budget"))
    }

    /// The cap, and what was spent in the last months.
    ///
    /// # Errors
    ///
    /// None of its own.
    pub async fn get_budget(&self) -> Result<v1::GetBudgetResponse, Error> {
        let answer = self.budgets().get_budget(v1::GetBudgetRequest {}).await;
        Ok(answer.map_err(|status| self.failed(&status))?.into_inner())
    }

    /// Takes the cap away; the cap that there was.
    ///
    /// # Errors
    ///
    /// `budget.not_found`.
    pub async fn remove_budget(&self) -> Result<v1::RemoveBudgetResponse, Error> {
        let answer = self
            .budgets()
            .remove_budget(v1::RemoveBudgetRequest {})
            .await;
        Ok(answer.map_err(|status| self.failed(&status))?.into_inner())
    }
}
