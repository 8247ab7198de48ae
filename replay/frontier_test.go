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

package replay

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/caddy-llm-cache/caddy-llm-cache/pipeline"
	"github.com/caddy-llm-cache/caddy-llm-cache/wire"
)

func read(t *testing.T, path string) []byte {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func TestWithRisk(t *testing.T) {
	for _, test := range []struct{ options, want string }{
		{"", `{"planner":{"risk":0.25}}`},
		{`{"planner":{"risk":4,"a":[1]},"zones":{"hot":6}}`, `{"planner":{"a":[1],"risk":0.25},"zones":{"hot":6}}`},
	} {
		got, err := withRisk([]byte(test.options), 0.25)
		if err != nil || string(got) != test.want {
			t.Errorf("%s: %s, %v", test.options, got, err)
		}
	}
	for _, bad := range []string{`[]`, `{"planner":3}`} {
		if _, err := withRisk([]byte(bad), 1); err == nil {
			t.Errorf("%s: no error", bad)
		}
	}
}

// point makes a result of a cost in percent of the client's own, and of harmed
// edits in a thousand.
func point1000(profile string, policy pipeline.Policy, risk, cost float64, harmed int) FrontierPoint {
	r := Result{Profile: profile, Policy: policy, BaseCost: 100, Cost: cost, Edits: 1000, Harmed: harmed, Base: wire.Usage{Uncached: 1}}
	return FrontierPoint{risk, Combination{Total: r, WorstRatio: 1.02}}
}

func TestFrontierDrawing(t *testing.T) {
	f := &Frontier{
		Points: []FrontierPoint{
			point1000("x", pipeline.CostAware, 0, 99, 0), point1000("x", pipeline.CostAware, 1, 80, 9), point1000("x", pipeline.CostAware, 4, 70, 31),
			point1000("y", pipeline.CostAware, 0, 97, 20), point1000("y", pipeline.CostAware, 1, 90, 40), point1000("y", pipeline.CostAware, 4, 96, 30),
		},
		References: []FrontierPoint{
			point1000("x", pipeline.Eager, 0, 170, 104), point1000("x", pipeline.Off, 0, 100, 0),
			point1000("y", pipeline.Eager, 0, 85, 35), point1000("y", pipeline.Off, 0, 100, 0),
		},
		Optima: []Optimum{{Profile: "x", Moments: AnyRequest, BaseCost: 100, Cost: 65}, {Profile: "x", Moments: Boundaries, BaseCost: 100, Cost: 75}},
	}
	var drawing bytes.Buffer
	if err := f.Draw(&drawing); err != nil {
		t.Fatal(err)
	}
	elements, texts := wellFormed(t, drawing.Bytes())
	if elements["circle"] != 6+1 || elements["path"] != 2+2 {
		t.Errorf("elements %v", elements)
	}
	for _, want := range []string{
		"−20.0 % at 0.90 % harm (risk 1)", // the cheapest of little harm
		"−3.0 % at 2.00 % harm (risk 0)",  // the least harmful
		"eager +70.0 % at 10.40 % harm",
		"eager −15.0 % at 3.50 % harm",
		"optimum −35.0 %",
		"worst conversation +2.0 %",
	} {
		if !strings.Contains(texts, want) {
			t.Errorf("%q is missing in %s", want, texts)
		}
	}
	if elements["rect"] != 1+1+1 { // the paper, eager in the key, and the one that is not too far away
		t.Errorf("elements %v", elements)
	}
	if strings.Contains(texts, "optimum −25.0 %") {
		t.Errorf("too much in %s", texts)
	}
	if !strings.Contains(drawing.String(), "prefers-color-scheme:dark") {
		t.Error("on a dark page it stays light")
	}
}

// However many profiles there are, all of the legend is in the drawing.
func TestFrontierLegendFits(t *testing.T) {
	f := new(Frontier)
	for i := range 9 {
		name := fmt.Sprint("profile ", i)
		f.Points = append(f.Points, point1000(name, pipeline.CostAware, 1, 80, 9))
		f.Optima = append(f.Optima, Optimum{Profile: name, Moments: AnyRequest, BaseCost: 100, Cost: 65})
	}
	var drawing bytes.Buffer
	if err := f.Draw(&drawing); err != nil {
		t.Fatal(err)
	}
	var height, lowest float64
	if _, err := fmt.Sscanf(regexp.MustCompile(`viewBox="[^"]*"`).FindString(drawing.String()), `viewBox="0 0 1000 %g"`, &height); err != nil {
		t.Fatal(err)
	}
	for _, m := range regexp.MustCompile(`<text x="[^"]*" y="([^"]*)"`).FindAllStringSubmatch(drawing.String(), -1) {
		y, err := strconv.ParseFloat(m[1], 64)
		if err != nil {
			t.Fatal(err)
		}
		lowest = max(lowest, y)
	}
	if lowest > height-8 {
		t.Errorf("a text stands at %g in a drawing of %g", lowest, height)
	}
}

func TestSweep(t *testing.T) {
	path := t.TempDir() + "/f.svg"
	out, _, err := command("replay", "--json", "--optimum", "--profile", "anthropic-5m,kv", "--frontier", path, "--risks", "0,1", "testdata/traces")
	if err != nil {
		t.Fatal(err)
	}
	var f Frontier
	if err := json.Unmarshal([]byte(out), &f); err != nil {
		t.Fatal(err)
	}
	if len(f.Points) != 4 || len(f.References) != 4 || len(f.Optima) != 4 {
		t.Fatalf("%d points, %d references, %d optima", len(f.Points), len(f.References), len(f.Optima))
	}
	for i, want := range []struct {
		profile string
		risk    float64
	}{{"anthropic-5m", 0}, {"anthropic-5m", 1}, {"kv", 0}, {"kv", 1}} {
		if p := &f.Points[i]; p.Total.Profile != want.profile || p.Risk != want.risk || p.Total.Policy != pipeline.CostAware || p.Total.Calls != 18 {
			t.Errorf("point %d: %+v", i, p.Total)
		}
	}
	wellFormed(t, read(t, path))
	out, _, err = command("replay", "--frontier", path, "--risks", "0", ferry)
	if err != nil || !strings.Contains(out, "eager") || !strings.Contains(out, "risk") {
		t.Errorf("%v: %s", err, out)
	}
	for _, args := range [][]string{
		{"--frontier", path, "--risks", "0,x", ferry},
		{"--frontier", path, "--risks", "", ferry},
		{"--frontier", path, "--options", "[]", ferry},
		{"--frontier", t.TempDir() + "/none/f.svg", "--risks", "0", ferry},
		{"--frontier", path, "--profile", "none", ferry},
	} {
		if _, _, err := command(append([]string{"replay"}, args...)...); err == nil {
			t.Errorf("%v: no error", args)
		}
	}
}

// The folds are a partition, and each is the rest of all but it.
func TestFolds(t *testing.T) {
	all := make([]*Conversation, 40)
	for i := range all {
		all[i] = &Conversation{Session: string(rune('a' + i))}
	}
	seen := map[*Conversation]int{}
	for fold := 1; fold <= 4; fold++ {
		some, err := Select(all, 4, fold)
		if err != nil {
			t.Fatal(err)
		}
		others, err := Select(all, 4, -fold)
		if err != nil || len(some)+len(others) != len(all) {
			t.Errorf("fold %d: %d and %d, %v", fold, len(some), len(others), err)
		}
		for _, c := range some {
			seen[c]++
		}
	}
	for i, c := range all {
		if seen[c] != 1 {
			t.Errorf("conversation %d is in %d folds", i, seen[c])
		}
	}
	if Fold("11111111-garden", 7) != 1 || Fold("22222222-ferry", 7) != 3 || Fold("a", 1) != 1 {
		t.Error("a session has changed its fold")
	}
	for _, bad := range [][2]int{{1, 1}, {4, 0}, {4, 5}, {4, -5}, {-4, 1}} {
		if _, err := Select(all, bad[0], bad[1]); err == nil {
			t.Errorf("fold %d of %d: no error", bad[1], bad[0])
		}
	}
	if _, err := Select(all[:1], 4, Fold(all[0].Session, 4)%4+1); err == nil {
		t.Error("an empty fold was taken")
	}
	out, _, err := command("replay", "--folds", "2", "--fold", "-1", "--policy", "off", "testdata/traces")
	inverse, _, err2 := command("replay", "--folds", "2", "--fold", "1", "--policy", "off", "testdata/traces")
	if n := strings.Count(out+inverse, "ferry-22222222 "); n == 0 || (err != nil && err2 != nil) {
		t.Errorf("%v, %v: %s%s", err, err2, out, inverse)
	}
}
