// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package keepalive

import (
	"bufio"
	"compress/gzip"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"flag"
	"fmt"
	"math"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/testkit"
)

var (
	fit  = flag.Bool("fit", false, "fit the model of pauses on the recorded conversations and print its coefficients")
	fold = flag.Int("fold", 0,
		"with -fit: print the coefficients fitted on all conversations but those of this fold of five, as caddy llm-cache "+
			"replay --folds 5 numbers them")
)

// lastWeight is the weight of the end of a recorded conversation. The person may have returned
// after it or not: records were published in the middle of work as often as at its end.
const lastWeight = 0.4

// pause is one pause of a recorded conversation that reached the onset.
type pause struct {
	session  string
	x        features
	age      time.Duration
	returned bool
	weight   float64
}

type line struct {
	At       *float64 `json:"t"`
	Messages []struct {
		Role    string `json:"role"`
		Content []struct {
			Type string `json:"type"`
			Text string `json:"text"`
		} `json:"content"`
	} `json:"messages"`
	Session string  `json:"session"`
	Offset  float64 `json:"t_offset"`
	Part    int     `json:"part"`
	Parts   int     `json:"parts"`
}

// recordedPauses reads the pauses of all recorded conversations.
func recordedPauses(t *testing.T) []pause {
	t.Helper()
	files := testkit.RecordingFiles(t)
	var out []pause
	state := map[string]*Moment{}
	for _, file := range files {
		lines := readLines(t, file)
		head, calls := lines[0], lines[1:]
		m := state[head.Session]
		if m == nil {
			m = new(Moment)
			state[head.Session] = m
		}
		for i := range calls {
			said := calls[i].Messages
			if said[len(said)-1].Content[0].Type != "tool_result" {
				m.Prompts++
			}
			m.Tool, m.Question = false, false
			last := i+1 == len(calls)
			if !last {
				m.answered(&calls[i+1])
			}
			p := pause{session: head.Session, x: m.features(), age: patience / 4, weight: 1}
			switch {
			case calls[i].At == nil, last && head.Part < head.Parts:
				continue // not recorded, or the client summarized its history
			case last:
				p.weight = lastWeight
			default:
				p.age = time.Duration((*calls[i+1].At - *calls[i].At) * float64(time.Second))
				if p.age > 5*time.Minute {
					m.Pauses++
				}
				p.returned = true
			}
			if p.age > onset {
				out = append(out, p)
			}
		}
	}
	return out
}

// answered notes how the response that the next call contains has ended.
func (m *Moment) answered(next *line) {
	text := ""
	for _, b := range next.Messages[0].Content {
		m.Tool = m.Tool || b.Type == "tool_use"
		text += b.Text
	}
	text = strings.TrimSpace(text)
	m.Question = !m.Tool && strings.Contains(text[max(0, len(text)-200):], "?")
}

func readLines(t *testing.T, file string) (out []line) {
	t.Helper()
	r, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	z, err := gzip.NewReader(r)
	if err != nil {
		t.Fatal(err)
	}
	s := bufio.NewScanner(z)
	s.Buffer(nil, 64<<20)
	for s.Scan() {
		var l line
		if err := json.Unmarshal(s.Bytes(), &l); err != nil {
			t.Fatal(err)
		}
		out = append(out, l)
	}
	return out
}

// foldOf numbers the folds of the cross-validation as package replay does.
func foldOf(session string) int {
	sum := sha256.Sum256([]byte(session))
	return int(binary.BigEndian.Uint64(sum[:8])%5) + 1
}

// intervals calls f for each interval of age that a pause went through. It passes the terms, the
// length in units of the logarithm of age, and whether the return fell into the interval.
func (p *pause) intervals(f func(x *features, length, returned float64)) {
	for i, lo := range edges {
		if p.age <= lo {
			return
		}
		x, hi, inside := p.x, p.age, true
		if i+1 < len(edges) && p.age > edges[i+1] {
			hi, inside = edges[i+1], false
		}
		if i > 0 {
			x[termAge+i-1] = 1
		}
		f(&x, math.Log(float64(hi)/float64(lo)), yes(inside && p.returned))
	}
}

// poisson fits the coefficients by Newton's method with a small ridge.
func poisson(data []pause) (w features) {
	const ridge = 3
	for range 40 {
		var g features
		var h [terms][terms]float64
		for i := range data {
			data[i].intervals(func(x *features, length, returned float64) {
				z := 0.0
				for j := range w {
					z += w[j] * x[j]
				}
				expected := length * math.Exp(min(z, 5))
				for j := range x {
					g[j] += data[i].weight * (returned - expected) * x[j]
					for l := range x {
						h[j][l] += data[i].weight * expected * x[j] * x[l]
					}
				}
			})
		}
		for j := range w {
			h[j][j] += 1e-9
			if j != termOne {
				g[j] -= ridge * w[j]
				h[j][j] += ridge
			}
		}
		for j, step := range solve(h, g) {
			w[j] += min(max(step, -1), 1)
		}
	}
	return w
}

// solve solves a linear system by elimination.
func solve(a [terms][terms]float64, b features) features {
	for i := range b {
		best := i
		for j := i; j < terms; j++ {
			if math.Abs(a[j][i]) > math.Abs(a[best][i]) {
				best = j
			}
		}
		a[i], a[best], b[i], b[best] = a[best], a[i], b[best], b[i]
		for j := i + 1; j < terms; j++ {
			q := a[j][i] / a[i][i]
			for k := i; k < terms; k++ {
				a[j][k] -= q * a[i][k]
			}
			b[j] -= q * b[i]
		}
	}
	for i := terms - 1; i >= 0; i-- {
		for k := i + 1; k < terms; k++ {
			b[i] -= a[i][k] * b[k]
		}
		b[i] /= a[i][i]
	}
	return b
}

// likelihood returns the log likelihood of the data, and the returns expected and found.
func likelihood(data []pause, w features) (sum, expected, found float64) {
	for i := range data {
		data[i].intervals(func(x *features, length, returned float64) {
			z := 0.0
			for j := range w {
				z += w[j] * x[j]
			}
			sum += data[i].weight * (returned*z - length*math.Exp(z))
			expected += data[i].weight * length * math.Exp(z)
			found += data[i].weight * returned
		})
	}
	return sum, expected, found
}

// TestFitChance prints the coefficients of chance_weights.go, fitted on all recorded conversations.
// It compares a fit on four fifths of them on the rest with a model of the constant alone.
func TestFitChance(t *testing.T) {
	if !*fit {
		t.Skip("run with -fit to fit the model of pauses")
	}
	data := recordedPauses(t)
	rest := func(k int) (out []pause) {
		for _, p := range data {
			if foldOf(p.session) != k {
				out = append(out, p)
			}
		}
		return out
	}
	w := poisson(rest(*fold))
	names := [terms]string{
		"termOne", "termTool", "termFirst", "termQuestion", "termPauses", "termAge", "termAge + 1",
		"termAge + 2",
	}
	fmt.Print("var weights = features{")
	for j, v := range w {
		if j > 0 {
			fmt.Print(", ")
		}
		fmt.Printf("%s: %.2f", names[j], v)
	}
	fmt.Println("}")
	if *fold != 0 {
		return
	}
	sum, _, found := likelihood(data, w)
	fmt.Printf("// %d pauses, %.0f returns, log likelihood %.1f\n", len(data), found, sum)
	crossed, plain := 0.0, 0.0
	for k := 1; k <= 5; k++ {
		var held []pause
		for _, p := range data {
			if foldOf(p.session) == k {
				held = append(held, p)
			}
		}
		sum, expected, found := likelihood(held, poisson(rest(k)))
		crossed += sum
		var length, returns float64
		for _, p := range rest(k) {
			p.intervals(func(_ *features, l, r float64) { length, returns = length+p.weight*l, returns+p.weight*r })
		}
		constant, _, _ := likelihood(held, features{termOne: math.Log(returns / length)})
		plain += constant
		fmt.Printf("// fold %d: %d pauses, %.0f returns, %.1f expected\n", k, len(held), found, expected)
	}
	fmt.Printf("// cross-validated log likelihood %.1f, of the constant alone %.1f\n", crossed, plain)
}
