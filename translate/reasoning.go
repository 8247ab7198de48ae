// Copyright 2026 The llm_cache Authors
//
// Licensed under the Apache License, Version 2.0 (the "License");
// you may not use this file except in compliance with the License.
// You may obtain a copy of the License at
//
//     http://www.apache.org/licenses/LICENSE-2.0
//
// Unless required by applicable law or agreed to in writing, software
// distributed under the License is distributed on an "AS IS" BASIS,
// WITHOUT WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied.
// See the License for the specific language governing permissions and
// limitations under the License.

package translate

import "slices"

// The budgets of thinking that stand for efforts, those that Google documents
// for its OpenAI-compatible endpoint.
const (
	budgetLow    = 1024
	BudgetMedium = 8192
	BudgetHigh   = 24576
)

// AsEffort returns the effort asked for, or the one that a budget stands for.
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

// AsBudget returns the budget asked for, or the one that an effort stands for.
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

// KnownEffort returns an effort that a host knows, high for what is beyond.
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
