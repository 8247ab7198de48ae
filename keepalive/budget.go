// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package keepalive

import "time"

// Budget counts what pings cost within an hour. An hour begins with the first
// ping after the one before it has ended.
type Budget struct {
	begun   time.Duration
	all     float64
	tenants map[[16]byte]float64
}

// take spends an amount of US dollars unless a bound forbids it. Where a bound
// is set and the price is not known, nothing may be spent.
func (b *Budget) take(tenant [16]byte, dollars float64, now Instant, o *Options) bool {
	if b.tenants == nil || now.Mono-b.begun >= time.Hour {
		*b = Budget{begun: now.Mono, tenants: map[[16]byte]float64{}}
	}
	bounded := o.Hourly > 0 || o.TenantHourly > 0
	switch {
	case bounded && dollars <= 0:
		return false
	case o.Hourly > 0 && b.all+dollars > o.Hourly:
		return false
	case o.TenantHourly > 0 && b.tenants[tenant]+dollars > o.TenantHourly:
		return false
	}
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
