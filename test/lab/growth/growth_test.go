// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"encoding/xml"
	"errors"
	"io"
	"math"
	"path/filepath"
	"strings"
	"testing"
)

const printed = `2026-11-25, 2 processors, medians of 7 rounds

### Cost of a known request by the length of its conversation

| by | Caddy | turn | KB | CPU, ms | added CPU, ms |
| --- | --- | ---: | ---: | ---: | ---: |
| turns | bare | 1 | 1.2 | 0.212 |  |
| turns | cost_aware | 1 | 1.2 | 0.327 | 0.116 (0.110 to 0.120) |
| turns | bare | 2000 | 722.1 | 0.451 |  |
| turns | cost_aware | 2000 | 722.1 | 1.295 | 0.844 (0.810 to 0.860) |
| bytes | bare | 4 | 2.2 | 0.211 |  |
| bytes | cost_aware | 4 | 2.2 | 0.286 | 0.075 (0.070 to 0.080) |
| bytes | bare | 66 | 32053.9 | 14.458 |  |
| bytes | cost_aware | 66 | 32053.9 | 30.789 | 16.330 (16.100 to 16.500) |

### How steeply it rises

| by | Caddy | ms for each 1,000 turns or MB | ratio to bare |
| --- | --- | ---: | ---: |
| turns | bare | 0.126 (0.120 to 0.130) |  |
| turns | cost_aware | 0.469 (0.460 to 0.480) | 3.72 (3.60 to 3.80) |
| bytes | bare | 0.458 (0.450 to 0.460) |  |
| bytes | cost_aware | 1.044 (1.040 to 1.050) | 2.28 (2.20 to 2.30) |
`

func TestRead(t *testing.T) {
	all, err := read(strings.NewReader(printed))
	if err != nil || len(all) != 4 {
		t.Fatalf("%d curves, %v", len(all), err)
	}
	for i, want := range []curve{
		{by: byTurns, caddy: "bare", slope: "0.126 (0.120 to 0.130)"},
		{by: byTurns, caddy: "cost_aware", slope: "0.469 (0.460 to 0.480)", ratio: "3.72 (3.60 to 3.80)"},
		{by: byBytes, caddy: "bare", slope: "0.458 (0.450 to 0.460)"},
		{by: byBytes, caddy: "cost_aware", slope: "1.044 (1.040 to 1.050)", ratio: "2.28 (2.20 to 2.30)"},
	} {
		got := all[i]
		if got.by != want.by || got.caddy != want.caddy || got.slope != want.slope || got.ratio != want.ratio ||
			len(got.points) != 2 {
			t.Errorf("curve %d: %+v, want %+v", i, *got, want)
		}
	}
	if got, want := all[3].points[1], (point{66, 32053.9, 30.789}); got != want {
		t.Errorf("last point: %v, want %v", got, want)
	}
}

func TestReadRefuses(t *testing.T) {
	for _, c := range []struct {
		name, in string
		want     error // nil: any
	}{
		{"nothing", "", errEmpty},
		{"another table", "| traffic | Caddy |\n| --- | --- |\n| chat | bare |\n", errEmpty},
		{"a word for a number", "| turns | bare | 1 | 1.2 | quick |  |\n", nil},
		{"no cost", "| turns | bare | 1 | 1.2 | 0.000 |  |\n", errScale},
		{"not a number", "| turns | bare | 1 | 1.2 | NaN |  |\n", errScale},
		{"a slope alone", "| turns | bare | 0.126 |  |\n", errSlope},
	} {
		if _, err := read(strings.NewReader(c.in)); err == nil || c.want != nil && !errors.Is(err, c.want) {
			t.Errorf("%s: %v, want %v", c.name, err, c.want)
		}
	}
}

// The drawing is XML, contains the values of the tables, and stays within its frame.
func TestDraw(t *testing.T) {
	var out bytes.Buffer
	if err := run("", strings.NewReader(printed), &out); err != nil {
		t.Fatal(err)
	}
	var texts []string
	d := xml.NewDecoder(&out)
	for {
		token, err := d.Token()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		switch token := token.(type) {
		case xml.CharData:
			texts = append(texts, string(token))
		case xml.StartElement:
			for _, a := range token.Attr {
				if strings.Contains(a.Value, "NaN") || strings.Contains(a.Value, "Inf") {
					t.Errorf("%s: %s=%q", token.Name.Local, a.Name.Local, a.Value)
				}
			}
		}
	}
	all := strings.Join(texts, "\n")
	for _, want := range []string{
		"turns of the conversation", "size of the request's body", "processor time of a request", "cost_aware", "1,000",
		"10 MB", "0.5 ms",
		"rises by 0.469 (0.460 to 0.480) ms per 1,000 turns, 3.72 (3.60 to 3.80) × bare",
		"rises by 0.458 (0.450 to 0.460) ms per MB\n",
	} {
		if !strings.Contains(all, want) {
			t.Errorf("nothing says %q in\n%s", want, all)
		}
	}
}

func TestDrawOfOnePoint(t *testing.T) {
	var out bytes.Buffer
	if err := draw(&out, []*curve{{by: byBytes, caddy: "bare", points: []point{{4, 2.2, 0.2}}}}); err != nil ||
		strings.Contains(out.String(), "NaN") {
		t.Errorf("%v\n%s", err, out.String())
	}
}

func TestRunWithoutFile(t *testing.T) {
	if err := run(filepath.Join(t.TempDir(), "none.md"), nil, io.Discard); err == nil {
		t.Error("a file that is not there was drawn")
	}
}

func TestScale(t *testing.T) {
	s := scale{1, 1000, 0, 300}
	for v, want := range map[float64]float64{1: 0, 10: 100, 100: 200, 1000: 300} {
		if got := s.at(v); math.Abs(got-want) > 1e-9 {
			t.Errorf("%v stands at %v, want %v", v, got, want)
		}
	}
	for _, c := range []struct {
		s    scale
		want []float64
	}{
		{scale{0.16, 1.6, 0, 1}, []float64{0.2, 0.3, 0.5, 0.7, 1, 1.5}},
		{scale{0.15, 15, 0, 1}, []float64{0.2, 0.5, 1, 2, 5, 10}},
		{scale{0.9, 2100, 0, 1}, []float64{1, 10, 100, 1000}},
	} {
		got := c.s.steps()
		if len(got) != len(c.want) {
			t.Errorf("%v: %v, want %v", c.s, got, c.want)
			continue
		}
		for i := range got {
			if got[i] != c.want[i] {
				t.Errorf("%v: %v, want %v", c.s, got, c.want)
			}
		}
	}
}

func TestLabels(t *testing.T) {
	for _, c := range []struct{ got, want string }{
		{plain(0.2), "0.2"},
		{plain(999), "999"},
		{plain(1000), "1,000"},
		{plain(1234567), "1,234,567"},
		{size(1), "1 KB"},
		{size(100), "100 KB"},
		{size(1 << 10), "1 MB"},
		{size(10 << 10), "10 MB"},
	} {
		if c.got != c.want {
			t.Errorf("%q, want %q", c.got, c.want)
		}
	}
}
