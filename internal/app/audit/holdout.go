// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package audit

import (
	"cmp"
	"maps"
	"slices"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/app/holdout"
)

// maxCompared bounds the sessions that are compared.
const maxCompared = 1 << 16

type comparedKey struct {
	session string
	control bool
}

// compared sums up the sessions of both groups from the first turn of the control group on, so that
// sessions from before the option are left out.
type compared map[comparedKey]*holdout.Session

func (h compared) add(r *Record) {
	if r.Session == "" || len(h) == 0 && !r.Holdout {
		return
	}
	key := comparedKey{r.Session, r.Holdout}
	c := h[key]
	if c == nil {
		if len(h) >= maxCompared {
			return
		}
		c = &holdout.Session{ID: r.Session, User: r.User}
		h[key] = c
	}
	r.CountHoldout(c)
}

// compare compares the groups, nil without a control group.
func (h compared) compare() *holdout.Comparison {
	var edited, control []*holdout.Session
	// Sums depend on the order in their last digits.
	keys := slices.SortedFunc(maps.Keys(h), func(a, b comparedKey) int { return cmp.Compare(a.session, b.session) })
	for _, key := range keys {
		switch c := h[key]; {
		case c.Turns == 0: // internal requests only
		case key.control:
			control = append(control, c)
		default:
			edited = append(edited, c)
		}
	}
	if len(control) == 0 {
		return nil
	}
	return holdout.Compare(edited, control)
}

// CountHoldout counts the record in the sums of its session.
func (r *Record) CountHoldout(c *holdout.Session) {
	own := r.ClientCost
	if r.Policy == "observe" && r.SimulatedCost > 0 {
		own = r.SimulatedCost
	}
	c.Units += r.Cost
	c.USD += r.USD
	c.OwnUnits += own
	if r.ClientCost > 0 {
		c.OwnUSD += own * r.ClientUSD / r.ClientCost
	}
	if !r.IsTurn() {
		return
	}
	c.Turns += float64(r.Turns)
	c.Prompt += float64(r.Billed.Prompt())
	c.Read += float64(r.Billed.Read)
	c.Output += float64(r.Billed.Output)
	c.Rereads += float64(r.Rereads)
	c.FailedEdits += float64(r.FailedEdits)
	if r.Compaction {
		c.Compactions++
	}
	if r.Turns == 1 && r.FirstToken > 0 {
		c.FirstToken += r.FirstToken.Seconds()
		c.Answered++
	}
}
