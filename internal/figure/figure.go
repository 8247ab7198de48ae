// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

// Package figure formats amounts for people.
package figure

import (
	"fmt"
	"math"

	"github.com/dustin/go-humanize"
)

// Dollars formats an amount of money: "$1,234.50", "-$0.0032". Amounts below one dollar have four
// decimals: a request often costs less than a cent.
func Dollars(v float64) string {
	if abs := math.Abs(v); abs < 0.99995 && abs >= 0.00005 {
		return dollars(v, 4)
	}
	return dollars(v, 2)
}

// Cents formats an amount of money to the cent, as people set budgets: "-$0.42".
func Cents(v float64) string { return dollars(v, 2) }

func dollars(v float64, decimals int) string {
	unit := math.Pow10(decimals)
	// Rounding before the sign is read leaves no "-$0.00".
	v = math.Round(v*unit) / unit
	sign := ""
	if v < 0 {
		sign = "-"
	}
	return sign + "$" + humanize.FormatFloat("#,###."+"####"[:decimals], math.Abs(v))
}

// Tokens formats a number of tokens: "812", "12.3k", "4.5M", "1.2G".
func Tokens(v float64) string {
	switch abs := math.Abs(v); {
	case abs >= 999.95e6:
		return fmt.Sprintf("%.1fG", v/1e9)
	case abs >= 999.95e3:
		return fmt.Sprintf("%.1fM", v/1e6)
	case abs >= 999.5:
		return fmt.Sprintf("%.1fk", v/1e3)
	}
	return fmt.Sprintf("%.0f", math.Round(v)+0) // never -0
}

// Percent formats a share of one: "12.3 %".
func Percent(share float64) string {
	return fmt.Sprintf("%.1f %%", math.Round(1000*share)/10+0) // never -0.0
}

// Change formats a ratio as a change: "-25.0 %", "+0.0 %".
func Change(ratio float64) string {
	percent := math.Round(1000*(ratio-1))/10 + 0 // never -0.0
	return fmt.Sprintf("%+.1f %%", percent)
}
