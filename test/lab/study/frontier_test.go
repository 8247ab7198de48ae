// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/cli/trial"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/testkit"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire"
	"github.com/caddy-llm-cache/caddy-llm-cache/pipeline"

	"github.com/caddy-llm-cache/caddy-llm-cache/test/lab/study/optimum"
)

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

// point1000 returns a result with a cost in percent of the client's own, and harmed edits in a
// thousand.
func point1000(profile string, policy pipeline.Policy, risk, cost float64, harmed int) FrontierPoint {
	r := trial.Result{
		Profile: profile, Policy: policy, BaseCost: 100, Cost: cost, Edits: 1000, Harmed: harmed,
		Base: wire.Usage{Uncached: 1},
	}
	return FrontierPoint{risk, trial.Combination{Total: r, WorstRatio: 1.02}}
}

func TestFrontierDrawing(t *testing.T) {
	f := &Frontier{
		Points: []FrontierPoint{
			point1000("x", pipeline.CostAware, 0, 99, 0), point1000("x", pipeline.CostAware, 1, 80, 9),
			point1000("x", pipeline.CostAware, 4, 70, 31),
			point1000("y", pipeline.CostAware, 0, 97, 20), point1000("y", pipeline.CostAware, 1, 90, 40),
			point1000("y", pipeline.CostAware, 4, 96, 30),
		},
		References: []FrontierPoint{
			point1000("x", pipeline.Eager, 0, 170, 104), point1000("x", pipeline.Off, 0, 100, 0),
			point1000("y", pipeline.Eager, 0, 85, 35), point1000("y", pipeline.Off, 0, 100, 0),
		},
		Optima: []optimum.Optimum{
			{Profile: "x", Moments: optimum.AnyRequest, BaseCost: 100, Cost: 65},
			{Profile: "x", Moments: optimum.Boundaries, BaseCost: 100, Cost: 75},
		},
	}
	var drawing bytes.Buffer
	if err := f.Draw(&drawing); err != nil {
		t.Fatal(err)
	}
	elements, texts := testkit.WellFormedSVG(t, drawing.Bytes())
	if elements["circle"] != 6+1 || elements["path"] != 2+2 {
		t.Errorf("elements %v", elements)
	}
	for _, want := range []string{
		"−20.0 % at 0.90 % harm (risk 1)", // the cheapest point with little harm
		"−3.0 % at 2.00 % harm (risk 0)",  // the least harmful point
		"eager +70.0 % at 10.40 % harm",
		"eager −15.0 % at 3.50 % harm",
		"optimum −35.0 %",
		"worst conversation +2.0 %",
	} {
		if !strings.Contains(texts, want) {
			t.Errorf("%q is missing in %s", want, texts)
		}
	}
	if elements["rect"] != 1+1+1 { // the paper, eager in the key, and the one that is near enough
		t.Errorf("elements %v", elements)
	}
	f.References = f.References[:2] // without points that are near enough there is nothing to explain
	drawing.Reset()
	if err := f.Draw(&drawing); err != nil {
		t.Fatal(err)
	}
	if elements, _ := testkit.WellFormedSVG(t, drawing.Bytes()); elements["rect"] != 1 {
		t.Errorf("a key to what is not drawn: %v", elements)
	}
	if strings.Contains(texts, "optimum −25.0 %") {
		t.Errorf("too much in %s", texts)
	}
	if !strings.Contains(drawing.String(), "prefers-color-scheme:dark") {
		t.Error("on a dark page it stays light")
	}
}

// The drawing contains the whole legend, for any number of profiles.
func TestFrontierLegendFits(t *testing.T) {
	f := new(Frontier)
	for i := range 9 {
		name := fmt.Sprint("profile ", i)
		f.Points = append(f.Points, point1000(name, pipeline.CostAware, 1, 80, 9))
		f.Optima = append(f.Optima, optimum.Optimum{Profile: name, Moments: optimum.AnyRequest, BaseCost: 100, Cost: 65})
	}
	var drawing bytes.Buffer
	if err := f.Draw(&drawing); err != nil {
		t.Fatal(err)
	}
	var height, lowest float64
	if _, err := fmt.Sscanf(regexp.MustCompile(`viewBox="[^"]*"`).FindString(drawing.String()), `viewBox="0 0 1000 %g"`,
		&height); err != nil {
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
