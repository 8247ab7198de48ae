// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package handler

import (
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"go.uber.org/zap"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/app/allowance"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/httpx"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/tenant"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire/translate"
	"github.com/caddy-llm-cache/caddy-llm-cache/pipeline"
)

const (
	headerBudget = "X-Llm-Cache-Budget"
	// defaultAnswer is taken for the bound on an answer that the client leaves open.
	defaultAnswer = 8192
	// promptMargin is by how much a prompt may be longer than it was estimated.
	promptMargin = 1.5
	// reservedRetry is the Retry-After, in seconds, while running requests of the same user have reserved
	// the rest of a budget.
	reservedRetry = 5
)

// maxCost is an upper bound of the cost of a request, estimated before it is sent.
func maxCost(x *pipeline.Transaction, asked *wire.Reply) allowance.Spent {
	rules := x.Rules().Served(asked.Service)
	answer := asked.MaxTokens
	if answer <= 0 {
		answer = defaultAnswer
	}
	prompt := int64(promptMargin * float64(max(x.Prompt.OriginalTokens, x.Prompt.SentTokens)))
	rules = rules.At(int(prompt)) // the price tier of a prompt of that length
	dollars := float64(prompt)*max(1, rules.Write, rules.Write1h)*rules.Input + float64(answer)*rules.Output
	return allowance.Spent{Dollars: dollars / 1e6, Tokens: prompt + int64(answer)}
}

// resetFormat is the form of the time at which a budget is reset.
const resetFormat = "Mon 2 Jan 2006 at 15:04 MST"

// spentMessage is the message for the client of a spent budget.
func spentMessage(v *allowance.Verdict) string {
	return fmt.Sprintf("the budget of %s, %s, is spent (%s so far); it begins anew on %s", v.Account, v.Budget,
		v.Budget.Amount(v.Spent), v.Ends.Format(resetFormat))
}

// spentStatus is the status of a response about a spent budget.
func spentStatus(agent string) int {
	// The AI SDK retries after every 429, and opencode would wait for hours.
	if strings.Contains(agent, "ai-sdk/") {
		return http.StatusPaymentRequired
	}
	return http.StatusTooManyRequests
}

// denySpent answers that a budget is spent, so that each client ends at once and shows why.
func denySpent(
	w http.ResponseWriter, format wire.Format, agent string, v *allowance.Verdict, now time.Time,
) error {
	resets := int(v.Ends.Sub(now)/time.Second) + 1
	f := translate.Spent(spentMessage(v), resets)
	h := w.Header()
	h.Set("X-Should-Retry", "false") // the SDKs of Anthropic and OpenAI obey it
	if format.Traits().Markers {     // clients of the Messages API know of caps
		at := strconv.FormatInt(v.Ends.Unix(), 10)
		h.Set("Retry-After", strconv.Itoa(resets))
		for name, value := range map[string]string{
			"Status": "rejected", "Reset": at, "Overage-Reset": at, "Overage-Utilization": "1",
			"Overage-Surpassed-Threshold": "1",
			"Overage-Period":              capPeriod(v.Budget), "Overage-Disabled-Reason": "org_spend_cap_reached",
		} {
			h.Set(prefixCap+name, value)
		}
	} // elsewhere no Retry-After: Codex would wait for it in silence
	if f.Status = spentStatus(agent); f.Status == http.StatusPaymentRequired {
		h.Del("Retry-After")
	}
	if strings.HasPrefix(agent, "codex") { // it shows no text but this header's, and only for this type
		f.Type = "usage_limit_reached"
		h.Set("X-Codex-Promo-Message", f.Message)
	}
	return httpx.Fail(w, format, f)
}

// afford reserves the cost of a request in the budgets of its user, groups, project and site. If one is
// spent, it answers the request and returns true.
func (o *site) afford(
	w http.ResponseWriter, r *http.Request, who tenant.User, project string, view *wire.View, limit allowance.Spent,
) (*allowance.Reservation, bool, error) {
	now := time.Now()
	budgets := &o.clients.load().Budgets
	reserved, v := o.records.sink.Ledger().Reserve(budgets, spenderOf(who, project), limit, now)
	if v.Uncounted {
		o.guard("putting a refusal on record", func() { o.records.denied(r, who, view, http.StatusServiceUnavailable) })
		return nil, true, o.denyUncounted(w, view.Format, "the store that several servers share fails",
			"budgets cannot be counted at the moment")
	}
	if v.Budget != nil && (v.Refused || v.Share >= allowance.WarnAt[0]) {
		w.Header().Set(headerBudget, fmt.Sprintf("%s, until %s", v.String(), v.Ends.Format(time.RFC3339)))
	}
	for i := range v.Warnings {
		x := &v.Warnings[i]
		o.up.Log.Warn("budget is spent beyond a threshold", zap.String("kind", string(x.Account.Kind)),
			zap.String("name", x.Account.Name), zap.Stringer("spent", x), zap.Float64("share", x.Share),
			zap.Time("ends", x.Ends))
	}
	if !v.Refused {
		return reserved, false, nil
	}
	o.records.count(outcomeBudget)
	status := http.StatusTooManyRequests
	final := !v.Reserved && !v.Budget.Limits()
	if final {
		status = spentStatus(r.UserAgent())
	}
	o.guard("putting a refusal on record", func() { o.records.denied(r, who, view, status) })
	if final {
		return nil, true, denySpent(w, view.Format, r.UserAgent(), &v, now)
	}
	// The client waits and tries again.
	wait := min(reservedRetry, int(v.Ends.Sub(now)/time.Second)+1)
	message := fmt.Sprintf("what is left of the budget of %s, %s, is reserved for requests that have not ended (%s so "+
		"far); try again in %d seconds", v.Account, v.Budget, v.Budget.Amount(v.Spent), wait)
	if !v.Reserved {
		wait = int(v.Ends.Sub(now)/time.Second) + 1
		message = fmt.Sprintf("the rate limit of %s, %s, is reached; try again in %d seconds", v.Account, v.Budget, wait)
	}
	w.Header().Set("Retry-After", strconv.Itoa(wait))
	return nil, true, httpx.Fail(w, view.Format, &translate.Failure{
		Status: status, Type: "rate_limit_error", Message: message,
	})
}

// spenderOf returns the accounts that a user's requests for a project are charged to.
func spenderOf(who tenant.User, project string) allowance.Spender {
	return allowance.Spender{Hash: who.Hash, User: who.Name, Groups: who.Groups, Project: project}
}

// denyUnknown answers that the models file has no price for a model, in words for the user and
// the operator.
func (o *site) denyUnknown(w http.ResponseWriter, r *http.Request, who tenant.User, view *wire.View) error {
	o.records.count(outcomeUnknown)
	o.guard("putting a refusal on record", func() { o.records.denied(r, who, view, http.StatusBadRequest) })
	message := fmt.Sprintf("the model %q is refused: its price is not known here, and unknown_models is refuse",
		view.Model)
	if billed := o.records.billed(view.Model); billed != "" && billed != view.Model {
		message = fmt.Sprintf("the model %q is refused: the price of %q, which the upstream serves for it, is not known "+
			"here, and unknown_models is refuse", view.Model, billed)
	}
	w.Header().Set("X-Should-Retry", "false")
	return httpx.Fail(w, view.Format, translate.Refusal(errors.New(message+"; use another model, or have the operator "+
		"add this one to the file of the option prices")))
}
