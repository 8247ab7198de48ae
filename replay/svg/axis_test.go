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

package svg

import (
	"strings"
	"testing"
)

func TestAxis(t *testing.T) {
	for _, test := range []struct {
		low, high float64
		want      string
	}{
		{0, 160_000, "0 50k 100k 150k 200k"},
		{0, 1_400_000, "0 200k 400k 600k 800k 1M 1.2M 1.4M"},
		{-25, 8, "-25 -20 -15 -10 -5 0 5 10"},
		{0, 0.7, "0 0.1 0.2 0.3 0.4 0.5 0.6 0.7"},
		{0, 0, "0 0.2 0.4 0.6 0.8 1"},
	} {
		var got []string
		a := NewAxis(test.low, test.high, 0, 100, 7)
		for _, v := range a.Ticks() {
			got = append(got, Kilo(v))
		}
		if strings.Join(got, " ") != test.want || a.At(a.min) != 0 || a.At(a.max) != 100 {
			t.Errorf("%v to %v: %v, want %s", test.low, test.high, got, test.want)
		}
	}
}
