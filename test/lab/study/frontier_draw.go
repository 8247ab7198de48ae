// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/cli/trial"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/figure"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/svg"
	"github.com/caddy-llm-cache/caddy-llm-cache/pipeline"

	"github.com/caddy-llm-cache/caddy-llm-cache/test/lab/study/optimum"
)

// inks are the colours of the profiles.
var inks = [...]string{
	"#0072b2", "#d55e00", "#009e73", "#cc79a7", "#b8860b", "#444444", "#56b4e9", "#8c564b",
	"#7d7d00",
}

// The position of the plot, in pixels.
const (
	plotWidth  = 1000
	plotLeft   = 76
	plotRight  = 720
	plotTop    = 76
	plotBottom = 560
	plotHeight = 620 // minimum
	entryGap   = 76  // between two entries of the legend
)

// plot is a frontier under construction.
type plot struct {
	*svg.Canvas
	f          *Frontier
	harm, cost svg.Axis
	profiles   []string
	eager      bool // drawn for at least one profile
}

// Draw draws the frontier as an SVG: cost against harm, with one curve for each profile through the
// tolerances, off at the origin, and eager if it is near enough.
func (f *Frontier) Draw(w io.Writer) error {
	title := "Cost against harm"
	about := "each point is all conversations at one tolerance of harm; lower left is better"
	p := &plot{f: f}
	p.scale()
	keyAt := float64(plotTop + 8 + entryGap*len(p.profiles))
	p.Canvas = svg.New(plotWidth, max(plotHeight, keyAt+40), title, about)
	p.Text(plotLeft, 28, "start", title, `font-size="18" font-weight="600"`)
	p.Text(plotLeft, 48, "start", about, `fill="`+svg.InkQuiet+`"`)
	p.axes()
	for i, name := range p.profiles {
		ink, y := inks[i%len(inks)], float64(plotTop+10+entryGap*i)
		p.reference(name, ink)
		p.optimum(name, ink)
		p.curve(name, ink)
		p.entry(name, ink, y)
	}
	p.key(keyAt)
	return p.Draw(w)
}

// key explains the marks.
func (p *plot) key(y float64) {
	x := float64(plotRight + 36)
	next := func(label string) {
		p.Text(x+12, y+4, "start", label, `font-size="11" fill="`+svg.InkQuiet+`"`)
		x += 24 + 7*float64(len(label))
	}
	p.Circle(x, y, 3.6, outlined(svg.InkQuiet))
	next("by risk")
	if p.eager {
		p.square(svg.At(x, y), svg.InkQuiet)
		next("eager")
	}
	p.plus(svg.At(x, y))
	next("off")
	if len(p.f.Optima) > 0 {
		x, y = plotRight+36, y+20
		p.diamond(svg.At(x, y), svg.InkQuiet)
		next("optimum with hindsight")
	}
}

func outlined(ink string) string {
	return `fill="` + svg.Paper + `" stroke="` + ink + `" stroke-width="1.8"`
}

func (p *plot) square(at svg.Point, ink string) { p.Rect(at.X-4, at.Y-4, 8, 8, outlined(ink)) }

func (p *plot) plus(at svg.Point) {
	p.Line(at.X-5, at.Y, at.X+5, at.Y, `stroke="`+svg.InkText+`" stroke-width="1.6"`)
	p.Line(at.X, at.Y-5, at.X, at.Y+5, `stroke="`+svg.InkText+`" stroke-width="1.6"`)
}

func (p *plot) diamond(at svg.Point, ink string) {
	p.Path([]svg.Point{svg.At(at.X-5, at.Y), svg.At(at.X, at.Y-5), svg.At(at.X+5, at.Y), svg.At(at.X, at.Y+5)}, true,
		`fill="`+ink+`"`)
}

// scale sets the axes to contain the origin and all points of the curves.
func (p *plot) scale() {
	low, high, harm := 0.0, 0.0, 0.0
	for i := range p.f.Points {
		r := &p.f.Points[i].Total
		if n := len(p.profiles); n == 0 || p.profiles[n-1] != r.Profile {
			p.profiles = append(p.profiles, r.Profile)
		}
		low, high, harm = min(low, r.CostRatio()-1), max(high, r.CostRatio()-1), max(harm, r.Harm())
	}
	for i := range p.f.Optima {
		low = min(low, p.f.Optima[i].CostRatio()-1)
	}
	p.harm = svg.NewAxis(0, max(1, 115*harm), plotLeft, plotRight, 8)
	p.cost = svg.NewAxis(110*low, max(5, 110*high), plotBottom, plotTop, 8)
}

func (p *plot) axes() {
	for _, v := range p.cost.Ticks() {
		y, stroke := p.cost.At(v), svg.InkGrid
		if v == 0 {
			stroke = svg.InkAxis
		}
		p.Line(plotLeft, y, plotRight, y, `stroke="`+stroke+`"`)
		p.Text(plotLeft-8, y+4, "end", percent(v), `fill="`+svg.InkQuiet+`"`)
	}
	for _, v := range p.harm.Ticks() {
		x := p.harm.At(v)
		p.Line(x, plotTop, x, plotBottom, `stroke="`+svg.InkGrid+`"`)
		p.Text(x, plotBottom+18, "middle", fmt.Sprintf("%g %%", v), `fill="`+svg.InkQuiet+`"`)
	}
	middle := (plotTop + plotBottom) / 2.0
	p.Text(18, middle, "middle", "cost against the client's own bytes",
		fmt.Sprintf(`fill="%s" transform="rotate(-90 18 %s)"`, svg.InkQuiet, svg.Num(middle)))
	p.Text((plotLeft+plotRight)/2, plotBottom+40, "middle", "harm: share of edits that quote text which was not shown",
		`fill="`+svg.InkQuiet+`"`)
}

// percent formats a change, and zero without a sign.
func percent(v float64) string {
	if v == 0 {
		return "0 %"
	}
	return minus(fmt.Sprintf("%+g %%", v))
}

// asChange formats a ratio to the client's own bytes as a change.
func asChange(ratio float64) string { return minus(figure.Change(ratio)) }

// minus replaces the hyphen by a minus sign.
func minus(number string) string { return strings.Replace(number, "-", "−", 1) }

// of returns the points of a profile.
func (p *plot) of(profile string) []*FrontierPoint {
	var out []*FrontierPoint
	for i := range p.f.Points {
		if f := &p.f.Points[i]; f.Total.Profile == profile {
			out = append(out, f)
		}
	}
	return out
}

// curve draws the points of a profile. Points with enough room are labelled with their tolerance.
func (p *plot) curve(profile, ink string) {
	results := p.of(profile)
	places := make([]svg.Point, len(results))
	for i, f := range results {
		places[i] = p.place(&f.Total)
	}
	p.Path(places, false, `fill="none" stroke="`+ink+`" stroke-width="1.8"`)
	labelled := svg.At(-100, -100)
	for i, f := range results {
		at := places[i]
		p.Circle(at.X, at.Y, 3.6, outlined(ink))
		if math.Hypot(at.X-labelled.X, at.Y-labelled.Y) > 24 {
			labelled = at
			p.Text(at.X+7, at.Y-6, "start", strconv.FormatFloat(f.Risk, 'g', -1, 64), `font-size="10" fill="`+ink+`"`)
		}
	}
}

// tolerable is the maximum share of harmed edits of a good point.
const tolerable = 0.01

// entry draws a profile's entry in the legend, with its cheapest tolerable point, or its least
// harmful one.
func (p *plot) entry(profile, ink string, y float64) {
	best := slices.MinFunc(p.of(profile), func(a, b *FrontierPoint) int {
		if c := cmp.Compare(max(a.Total.Harm(), tolerable), max(b.Total.Harm(), tolerable)); c != 0 {
			return c
		}
		return cmp.Compare(a.Total.CostRatio(), b.Total.CostRatio())
	})
	x := float64(plotRight + 28)
	p.Line(x, y-4, x+18, y-4, `stroke="`+ink+`" stroke-width="2.5"`)
	p.Text(x+24, y, "start", profile, `font-weight="600"`)
	small := `font-size="11" fill="` + svg.InkQuiet + `"`
	p.Text(x+24, y+15, "start", fmt.Sprintf("%s at %.2f %% harm (risk %g)", asChange(best.Total.CostRatio()),
		100*best.Total.Harm(), best.Risk), small)
	p.Text(x+24, y+29, "start", "worst conversation "+asChange(best.WorstRatio), small)
	if e := p.under(profile, pipeline.Eager); e != nil {
		p.Text(x+24, y+43, "start", fmt.Sprintf("eager %s at %.2f %% harm", asChange(e.CostRatio()), 100*e.Harm()), small)
	}
	if o := p.best(profile); o != nil {
		p.Text(x+24, y+57, "start", "optimum "+asChange(o.CostRatio()), small)
	}
}

// best returns the optimum of a profile at any request, nil if it was not requested.
func (p *plot) best(profile string) *optimum.Optimum {
	for i := range p.f.Optima {
		if o := &p.f.Optima[i]; o.Profile == profile && o.Moments == optimum.AnyRequest {
			return o
		}
	}
	return nil
}

func (p *plot) optimum(profile, ink string) {
	if o := p.best(profile); o != nil {
		p.diamond(svg.At(p.harm.At(0), p.cost.At(100*(o.CostRatio()-1))), ink)
	}
}

// place returns the position of a result.
func (p *plot) place(r *trial.Result) svg.Point {
	return svg.At(p.harm.At(100*r.Harm()), p.cost.At(100*(r.CostRatio()-1)))
}

// under returns the reference result of a policy, nil for none.
func (p *plot) under(profile string, policy pipeline.Policy) *trial.Result {
	for i := range p.f.References {
		if r := &p.f.References[i].Total; r.Profile == profile && r.Policy == policy {
			return r
		}
	}
	return nil
}

// reference draws off, and eager if it lies within the axes.
func (p *plot) reference(profile, ink string) {
	if r := p.under(profile, pipeline.Off); r != nil {
		p.plus(p.place(r))
	}
	if r := p.under(profile, pipeline.Eager); r != nil {
		if at := p.place(r); at.X <= plotRight && at.Y >= plotTop && at.Y <= plotBottom {
			p.square(at, ink)
			p.eager = true
		}
	}
}
