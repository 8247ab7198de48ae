// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package figure

import "testing"

func TestFigures(t *testing.T) {
	for _, tt := range []struct {
		name   string
		format func(float64) string
		want   map[float64]string
	}{
		{"Dollars", Dollars, map[float64]string{
			0: "$0.00", 0.00004: "$0.00", -0.00004: "$0.00", 0.0032: "$0.0032", -0.0032: "-$0.0032", 0.99994: "$0.9999",
			0.99999: "$1.00",
			0.42:    "$0.4200", -1.425: "-$1.43", 12: "$12.00", 1234.5: "$1,234.50", -1e6: "-$1,000,000.00",
		}},
		{"Cents", Cents, map[float64]string{0: "$0.00", -0.001: "$0.00", 0.42: "$0.42", -0.2: "-$0.20", 1234.5: "$1,234.50"}},
		{"Tokens", Tokens, map[float64]string{
			0: "0", -0.4: "0", 0.5: "1", 812: "812", 999.4: "999", 999.6: "1.0k", 12_345: "12.3k", 999_960: "1.0M",
			-4_500_000: "-4.5M", 1.2e9: "1.2G",
		}},
		{"Percent", Percent, map[float64]string{
			0: "0.0 %", -0.0001: "0.0 %", 0.1234: "12.3 %", 1: "100.0 %",
			-0.05: "-5.0 %",
		}},
		{"Change", Change, map[float64]string{
			1: "+0.0 %", 0.9999: "+0.0 %", 1.0001: "+0.0 %", 0.9: "-10.0 %",
			0.999: "-0.1 %", 1.25: "+25.0 %",
		}},
	} {
		for v, want := range tt.want {
			if got := tt.format(v); got != want {
				t.Errorf("%s(%g) = %q, want %q", tt.name, v, got, want)
			}
		}
	}
}
