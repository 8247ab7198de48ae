// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package handler

import (
	"encoding/json"
	"math"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/app/allowance"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/httpx"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/tenant"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire/translate"
)

// Claude Code shows how much of a cap is spent by headers of successful answers, and the dollars by
// GET /api/oauth/usage: `claude gateway` describes both at GET /protocol.

const (
	// prefixLimits begins the names of headers about rate limits and caps.
	prefixLimits = "Anthropic-Ratelimit-"
	prefixCap    = prefixLimits + "Unified-"
	pathUsage    = "/api/oauth/usage"
)

// capThresholds are the shares of a cap beyond which Claude Code warns, the highest first.
var capThresholds = [...]struct {
	share float64
	text  string
}{{0.95, "0.95"}, {0.75, "0.75"}}

// capPeriod returns Claude Code's word for the period of a cap.
func capPeriod(b *allowance.Budget) string {
	switch b.Per {
	case allowance.Week:
		return "weekly"
	case allowance.Month:
		return "monthly"
	}
	return "daily"
}

// capOf returns the fullest cap on the requests of a user for a project, with a nil Budget for none.
func (o *site) capOf(who tenant.User, project string) allowance.Verdict {
	return o.records.sink.Ledger().Cap(&o.clients.load().Budgets, spenderOf(who, project), time.Now())
}

// stampCap tells clients of the Messages API how much of the user's cap is spent. The upstream's limits
// are those of the operator, and removed.
func (x *exchange) stampCap(h http.Header) {
	o := x.site
	if !x.Format.Traits().Markers || !o.bounded() {
		return
	}
	if v := o.capOf(x.user, x.record.Project); v.Budget != nil {
		stampCap(h, &v)
	}
}

// stampCap writes the headers of a successful answer.
func stampCap(h http.Header, c *allowance.Verdict) {
	for name := range h {
		if strings.HasPrefix(name, prefixLimits) {
			delete(h, name)
		}
	}
	status, resets := "allowed", strconv.FormatInt(c.Ends.Unix(), 10)
	for _, t := range capThresholds {
		if c.Share >= t.share {
			status = "allowed_warning"
			h.Set(prefixCap+"Overage-Surpassed-Threshold", t.text)
			break
		}
	}
	// An answer was still allowed: its part is below 1.
	utilization := min(math.Floor(c.Share*100)/100, 0.99)
	h.Set(prefixCap+"Status", status)
	h.Set(prefixCap+"Representative-Claim", "overage")
	h.Set(prefixCap+"Reset", resets)
	h.Set(prefixCap+"Overage-Status", status)
	h.Set(prefixCap+"Overage-Utilization", strconv.FormatFloat(utilization, 'f', 2, 64))
	h.Set(prefixCap+"Overage-Reset", resets)
}

// usageReport is the answer to GET /api/oauth/usage.
type usageReport struct {
	Extra  extraUsage   `json:"extra_usage"`
	Limits []usageLimit `json:"limits"`
}

// extraUsage has amounts in cents. The cap is in MonthlyLimit whatever its period.
type extraUsage struct {
	Enabled      bool   `json:"is_enabled"`
	MonthlyLimit int64  `json:"monthly_limit"`
	UsedCredits  int64  `json:"used_credits"`
	Utilization  int64  `json:"utilization"` // in percent
	Currency     string `json:"currency"`
}

type usageLimit struct {
	Kind     string `json:"kind"`
	Group    string `json:"group"`
	Percent  int64  `json:"percent"`
	ResetsAt string `json:"resets_at"`
	Severity string `json:"severity"`
	Active   bool   `json:"is_active"`
}

// serveUsage answers with the dollars of the user's cap. For a user without one it returns false: the
// provider may have an answer.
func (o *site) serveUsage(w http.ResponseWriter, r *http.Request) (served bool, err error) {
	c := o.capOf(o.userOf(r), "")
	if c.Budget == nil || c.Budget.Dollars <= 0 {
		return false, nil
	}
	percent, severity := int64(math.Round(c.Share*100)), "normal"
	switch {
	case c.Share >= capThresholds[0].share:
		severity = "critical"
	case c.Share >= capThresholds[1].share:
		severity = "warning"
	}
	body, err := json.Marshal(usageReport{
		Extra: extraUsage{
			Enabled: true, MonthlyLimit: int64(math.Round(c.Budget.Dollars * 100)), UsedCredits: int64(c.Spent.Dollars * 100),
			Utilization: percent, Currency: "USD",
		},
		Limits: []usageLimit{{
			Kind: "spend", Group: capPeriod(c.Budget), Percent: percent, Severity: severity, Active: true,
			// The client compares it with the header of the reset.
			ResetsAt: c.Ends.UTC().Format("2006-01-02T15:04:05.000Z"),
		}},
	})
	if err != nil {
		return true, err
	}
	httpx.Ours(w)
	h := w.Header()
	h.Set("Content-Type", "application/json")
	h.Set("Cache-Control", "no-store")
	_, err = w.Write(body)
	return true, err
}

// denyUncounted answers a request while a store fails and the operator wants no request then. With
// budgets, Claude Code ends with the message.
func (o *site) denyUncounted(w http.ResponseWriter, format wire.Format, fails, otherwise string) error {
	o.records.count(outcomeUnrecorded)
	if o.bounded() && format.Traits().Markers {
		h := w.Header()
		h.Set("X-Should-Retry", "false")
		h.Set(prefixCap+"Overage-Disabled-Reason", "fetch_error")
		return httpx.Fail(w, format, translate.Spent("budgets cannot be counted at the moment, because "+fails+
			"; try again later, or tell the operator", 1))
	}
	return httpx.Fail(w, format, &translate.Failure{
		Status: http.StatusServiceUnavailable, RetryAfter: recordRetry, Message: otherwise + ", try again later",
	})
}
