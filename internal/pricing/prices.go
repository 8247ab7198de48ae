// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package pricing

import (
	"cmp"
	_ "embed"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

//go:embed prices.txt
var pricesText string

// price is one row of the table: a model from one day on.
type price struct {
	provider, model string
	from            time.Time
	rules           Rules
	day             bool // entries live 24 hours
}

// Table says what models cost and what their caches do.
type Table struct {
	rows map[[2]string][]price // by provider and model, each model's by date
	over *Table                // what it takes the place of
	all  bool                  // models of unknown vendors have a price, too
}

// builtIn is the table of this module.
var builtIn = sync.OnceValue(func() *Table {
	t, err := ReadTable("prices.txt", pricesText)
	if err != nil {
		panic("pricing: " + err.Error()) // part of the program; a test reads every row
	}
	return t
})

// With returns the table with the models of another in front of it. The rows that it has
// of a model take the place of all that there were.
func (t *Table) With(o *Table) *Table { return &Table{rows: o.rows, over: t} }

// PricingAll returns the table with a price for models of unknown vendors, too: that of
// the dearest model of all.
func (t *Table) PricingAll() *Table {
	all := *t
	all.all = true
	return &all
}

// assume gives a model that the table does not know the prices of the dearest model of
// its vendor at a time, "" for that of any vendor: a bound in dollars holds for it, too.
func (t *Table) assume(r *Rules, vendor string, at time.Time) {
	var dearest Rules
	for of := t; of != nil; of = of.over {
		for k := range of.rows {
			if vendor != "" && k[0] != vendor {
				continue
			}
			row, _ := t.find(k[0], k[1], at)
			if o := row.rules; cmp.Or(cmp.Compare(o.Input, dearest.Input), cmp.Compare(o.Output, dearest.Output), cmp.Compare(dearest.Model, o.Model)) > 0 {
				dearest = o
			}
		}
	}
	r.Input, r.Output, r.PricesOf = dearest.Input, dearest.Output, dearest.Model
	r.TierAbove, r.TierInput, r.TierOutput = dearest.TierAbove, dearest.TierInput, dearest.TierOutput
}

// BuiltIn is the table of this module.
func BuiltIn() *Table { return builtIn() }

// ReadPrices returns the built-in table with the models of a file in front of it, or the
// table alone for "".
func ReadPrices(file string) (*Table, error) {
	if file == "" {
		return BuiltIn(), nil
	}
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	t, err := ReadTable(file, string(text))
	if err != nil {
		return nil, err
	}
	return BuiltIn().With(t), nil
}

// hosts are the providers of which there may be rows.
var hosts = []string{"anthropic", "bedrock", "vertex", "openai", "azure", "gemini", "other"}

// ReadTable reads a table: the text of a file of that name, which errors tell with the
// line.
func ReadTable(file, text string) (*Table, error) {
	t := &Table{rows: map[[2]string][]price{}}
	n := 0
	for line := range strings.Lines(text) {
		n++
		line = strings.TrimSpace(line)
		if line == "" || line[0] == '#' {
			continue
		}
		p, err := parsePrice(strings.Fields(line))
		if err == nil {
			err = t.add(p)
		}
		if err != nil {
			return nil, fmt.Errorf("%s:%d: %w", file, n, err)
		}
	}
	return t, nil
}

// add adds a row behind those of its model.
func (t *Table) add(p price) error {
	k := [2]string{p.provider, p.model}
	if rows := t.rows[k]; len(rows) > 0 && !p.from.After(rows[len(rows)-1].from) {
		return fmt.Errorf("%s %s: no later day than that of the row before it", p.provider, p.model)
	}
	t.rows[k] = append(t.rows[k], p)
	return nil
}

// columns is the number of columns before the mark, which is the rest of the line.
const columns = 12

func parsePrice(f []string) (price, error) {
	if len(f) < columns {
		return price{}, fmt.Errorf("%d columns, %d expected: provider, model, from, input, output, write, write1h, read, min, tier, window, facts", len(f), columns)
	}
	if !slices.Contains(hosts, f[0]) {
		return price{}, fmt.Errorf("provider %q is none of %s", f[0], strings.Join(hosts, ", "))
	}
	p := price{provider: f[0], model: nameOf(f[1]).model}
	r := &p.rules
	r.Provider, r.Model, r.Mark = p.provider, p.model, strings.Join(f[columns:], " ")
	if f[2] != "-" {
		from, err := time.Parse(time.DateOnly, f[2])
		if err != nil {
			return price{}, fmt.Errorf("from: %q is no day such as 2026-11-20", f[2])
		}
		p.from = from
	}
	if err := r.parseFigures(f[3:8]); err != nil {
		return price{}, err
	}
	var err error
	if r.MinTokens, err = parseCount(f[8]); err != nil {
		return price{}, fmt.Errorf("min: %w", err)
	}
	if f[9] != "-" {
		if err := r.parseTier(f[9]); err != nil {
			return price{}, fmt.Errorf("tier: %w", err)
		}
	}
	if r.ContextWindow, err = parseCount(f[10]); err != nil {
		return price{}, fmt.Errorf("window: %w", err)
	}
	if f[11] == "-" {
		return p, nil
	}
	for fact := range strings.SplitSeq(f[11], ",") {
		switch fact {
		case "binds":
			r.BindsThinking = true
		case "keeps":
			r.KeepsThinking = true
		case "noprefill":
			r.RefusesPrefill = true
		case "noforce":
			r.RefusesForcedTools = true
		case "24h":
			p.day = true
		default:
			return price{}, fmt.Errorf("unknown fact %q", fact)
		}
	}
	return p, nil
}

// parseFigures reads input, output, write, write1h and read.
func (r *Rules) parseFigures(f []string) error {
	var figures [5]float64
	for i, s := range f {
		if s == "-" {
			continue
		}
		v, err := strconv.ParseFloat(s, 64)
		if err != nil || !(v >= 0 && v <= 1e6) {
			return fmt.Errorf("price %q is no number of dollars", s)
		}
		figures[i] = v
	}
	r.Input, r.Output = figures[0], figures[1]
	if r.Input <= 0 {
		return fmt.Errorf("input price %g is not positive", r.Input)
	}
	r.Write, r.Write1h, r.Read = multiple(figures[2], r.Input), multiple(figures[3], r.Input), multiple(figures[4], r.Input)
	if f[2] == "-" {
		r.Write = 1 // writing is free: a token not found costs its input price
	}
	if f[3] == "-" {
		r.Write1h = r.Write
	}
	if f[4] == "-" {
		r.Read = 1
	}
	if r.Read > 1 {
		return fmt.Errorf("read price %g is higher than the input price %g", figures[4], r.Input)
	}
	return nil
}

// parseTier reads above:input:output.
func (r *Rules) parseTier(s string) error {
	part := strings.Split(s, ":")
	if len(part) != 3 {
		return fmt.Errorf("%q is not above:input:output", s)
	}
	var err error
	if r.TierAbove, err = parseCount(part[0]); err != nil || r.TierAbove == 0 {
		return fmt.Errorf("%q is no number of tokens", part[0])
	}
	for i, to := range [...]*float64{&r.TierInput, &r.TierOutput} {
		v, err := strconv.ParseFloat(part[1+i], 64)
		if err != nil || !(v > 0 && v <= 1000) {
			return fmt.Errorf("%q is no multiple", part[1+i])
		}
		*to = v
	}
	return nil
}

// parseCount reads a number of tokens, "-" for none.
func parseCount(s string) (int, error) {
	if s == "-" {
		return 0, nil
	}
	n, err := strconv.Atoi(s)
	if err != nil || n < 0 || n > 1<<30 {
		return 0, fmt.Errorf("%q is no number of tokens", s)
	}
	return n, nil
}

// multiple divides two prices and takes off what the division adds to figures
// that have a few decimals.
func multiple(part, whole float64) float64 {
	m, _ := strconv.ParseFloat(strconv.FormatFloat(part/whole, 'g', 9, 64), 64)
	return m
}

// find returns the row of a model that holds at a time.
func (t *Table) find(provider, model string, at time.Time) (price, bool) {
	for ; t != nil; t = t.over {
		rows := t.rows[[2]string{provider, model}]
		if len(rows) == 0 {
			continue
		}
		row := rows[0]
		for _, p := range rows[1:] {
			if !at.Before(p.from) {
				row = p
			}
		}
		return row, true
	}
	return price{}, false
}
