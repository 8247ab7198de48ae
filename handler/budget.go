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

package handler

import (
	"fmt"
	"net/http"
	"strconv"
	"time"

	"go.uber.org/zap"

	"github.com/caddy-llm-cache/caddy-llm-cache/allowance"
	"github.com/caddy-llm-cache/caddy-llm-cache/layer"
	"github.com/caddy-llm-cache/caddy-llm-cache/pipeline"
	"github.com/caddy-llm-cache/caddy-llm-cache/tenant"
	"github.com/caddy-llm-cache/caddy-llm-cache/translate"
	"github.com/caddy-llm-cache/caddy-llm-cache/wire"
)

const (
	headerBudget = "X-Llm-Cache-Budget"
	// warnFrom is the part of a budget from which answers say how much of it is spent.
	warnFrom = 0.8
	// longestAnswer is taken for the bound on an answer that the client leaves open.
	longestAnswer = 8192
	// promptMargin is by how much a prompt may be longer than it was estimated.
	promptMargin = 1.5
	// heldFor is after how many seconds whoever is held up by requests of their own may
	// ask again.
	heldFor = 5
)

// bounded reports whether there are budgets to keep here.
func (o *site) bounded() bool { return len(o.clients.budgets) > 0 && o.records.sink != nil }

// mostOf is what a request may cost at most, as far as can be told before.
func mostOf(x *pipeline.Exchange, asked *wire.Reply) allowance.Spent {
	rules := x.Rules()
	answer := asked.MaxTokens
	if answer <= 0 {
		answer = longestAnswer
	}
	prompt := wire.Usage{Uncached: int64(promptMargin * float64(max(x.Prompt.OriginalTokens, x.Prompt.SentTokens)))}
	all := wire.Usage{Output: int64(answer)}
	units := float64(prompt.Uncached)*max(1, rules.Write, rules.Write1h) + rules.CostOutput(all)
	return allowance.Spent{Dollars: units * rules.Input / 1e6, Tokens: prompt.Uncached + all.Output}
}

// afford sets aside what a request of a person may cost. It answers, and returns true,
// where a budget is spent.
func (o *site) afford(w http.ResponseWriter, who tenant.Person, format wire.Format, most allowance.Spent) (*allowance.Reservation, bool, error) {
	now := time.Now()
	r, v := o.records.sink.Spending.Reserve(o.clients.budgets, who.Hash, who.Name, most, now)
	if v.Budget != nil && (v.Refused || v.Share >= warnFrom) {
		w.Header().Set(headerBudget, fmt.Sprintf("%s, until %s", v.String(), v.Ends.Format(time.RFC3339)))
	}
	if !v.Refused {
		if v.Share >= 1 {
			o.up.Log.Warn("a budget is spent", zap.String("person", who.Name), zap.String("spent", v.String()))
		}
		return r, false, nil
	}
	o.records.count(outcomeBudget)
	after, message := int(v.Ends.Sub(now)/time.Second)+1, fmt.Sprintf("the budget of %s is spent (%s); it begins anew at %s", v.Budget, v.String(), v.Ends.Format(time.RFC3339))
	if v.Held {
		after, message = heldFor, fmt.Sprintf("what is left of the budget of %s is set aside for requests that have not ended (%s is spent), try again later", v.Budget, v.String())
	}
	w.Header().Set("Retry-After", strconv.Itoa(after))
	return nil, true, layer.Fail(w, format, &translate.Failure{Status: http.StatusTooManyRequests, Type: "rate_limit_error", Message: message})
}
