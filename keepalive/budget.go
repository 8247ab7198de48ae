// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package keepalive

import "time"

// Budget counts the cost of pings within an hour. The first ping after a full hour begins the next one.
type Budget struct {
	begun   time.Duration
	all     float64
	tenants map[[16]byte]float64
}

// take spends an amount of US dollars unless a limit forbids it.
func (b *Budget) take(tenant [16]byte, dollars float64, now Instant, o *Options) bool {
	if b.tenants == nil || now.Mono-b.begun >= time.Hour {
		*b = Budget{begun: now.Mono, tenants: map[[16]byte]float64{}}
	}
	bounded := o.Hourly > 0 || o.TenantHourly > 0
	switch {
	// A limit in dollars cannot be kept for a model without a known price.
	case bounded && dollars <= 0:
		return false
	case o.Hourly > 0 && b.all+dollars > o.Hourly:
		return false
	case o.TenantHourly > 0 && b.tenants[tenant]+dollars > o.TenantHourly:
		return false
	}
	// The estimate counts at once, so that pings in flight cannot exceed the limit together.
	b.all += dollars
	b.tenants[tenant] += dollars
	return true
}

func (b *Budget) spent(now Instant) float64 {
	if now.Mono-b.begun >= time.Hour {
		return 0
	}
	return b.all
}
