// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package translate

import "slices"

// The thinking budgets equivalent to efforts, from Google's documentation of its OpenAI-compatible
// endpoint.
const (
	budgetLow    = 1024
	BudgetMedium = 8192
	BudgetHigh   = 24576
)

// AsEffort returns the requested effort, or the effort equivalent to the budget.
func (g Reasoning) AsEffort() string {
	switch {
	case g.Effort != "":
		return g.Effort
	case g.Budget <= 0:
		return ""
	case g.Budget <= budgetLow:
		return "low"
	case g.Budget <= BudgetMedium:
		return "medium"
	}
	return "high"
}

// AsBudget returns the requested budget, or the budget equivalent to the effort.
func (g Reasoning) AsBudget() int {
	switch {
	case g.Budget > 0:
		return g.Budget
	case g.Effort == "minimal", g.Effort == "low":
		return budgetLow
	case g.Effort == "medium":
		return BudgetMedium
	case g.Effort != "":
		return BudgetHigh
	}
	return 0
}

// KnownEffort returns the effort if the host supports it, else low for minimal and high for all
// others.
func KnownEffort(effort string, known ...string) string {
	if effort == "" {
		return ""
	}
	if slices.Contains(known, effort) {
		return effort
	}
	if effort == "minimal" {
		return "low"
	}
	return "high"
}
