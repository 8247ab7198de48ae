// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package pricing

import (
	"cmp"
	"fmt"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire"
)

// multiples are the prices of services as multiples of the standard one, 0 where a service
// has no price of its own.
type multiples struct {
	Batch     float64 `json:"batch"`
	Flex      float64 `json:"flex"`
	Fast      float64 `json:"fast"`
	Priority  float64 `json:"priority"`
	Ultrafast float64 `json:"ultrafast"`
	// Regional is the price in one region, against that of the global service.
	Regional float64 `json:"regional"`
}

// with returns the multiples with those of others in place of their own.
func (m multiples) with(o multiples) multiples {
	return multiples{
		cmp.Or(o.Batch, m.Batch), cmp.Or(o.Flex, m.Flex), cmp.Or(o.Fast, m.Fast),
		cmp.Or(o.Priority, m.Priority), cmp.Or(o.Ultrafast, m.Ultrafast), cmp.Or(o.Regional, m.Regional),
	}
}

func (m multiples) validate() error {
	for _, f := range [...]float64{m.Batch, m.Flex, m.Fast, m.Priority, m.Ultrafast, m.Regional} {
		if !(f >= 0 && f <= 100) {
			return fmt.Errorf("services: multiples must be between 0 and 100, got %g", f)
		}
	}
	return nil
}

// Served returns the rules with the prices of a service. The multiples of the cache are
// the same in all of them.
func (r Rules) Served(s wire.Service) Rules {
	if r.row == nil {
		return r
	}
	f := r.row.services.of(s)
	r.Input *= f
	r.Output *= f
	return r
}

// of returns a service's price. Tiers exclude one another; speed and region stack on them.
func (m *multiples) of(s wire.Service) float64 {
	tier, speed, region := 0.0, 0.0, 0.0
	switch {
	case s&wire.Batch != 0:
		tier = m.Batch
	case s&wire.Flex != 0:
		tier = m.Flex
	case s&wire.Ultrafast != 0:
		tier = m.Ultrafast
	case s&wire.Priority != 0:
		tier = m.Priority
	}
	if s&wire.Fast != 0 {
		speed = m.Fast
	}
	if s&wire.Regional != 0 {
		region = m.Regional
	}
	return cmp.Or(tier, 1) * cmp.Or(speed, 1) * cmp.Or(region, 1)
}
