// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package pricing

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/tidwall/gjson"
)

// perMillion has another table's prices in US dollars for a million tokens, 0 for none.
type perMillion struct {
	Input     float64 `json:"input"`
	Output    float64 `json:"output"`
	Write     float64 `json:"write,omitempty"`
	WriteLong float64 `json:"write_long,omitempty"`
	Read      float64 `json:"read,omitempty"`
	Tier      *tier   `json:"tier,omitempty"`
}

type tier struct {
	Above  int     `json:"above"`
	Input  float64 `json:"input"`
	Output float64 `json:"output"`
}

// aliases are the names of vendors in other tables.
var aliases = map[string]string{"google": "gemini", "moonshotai": "moonshot", "x-ai": "xai", "z-ai": "zai"}

// Convert returns the prices of a table of LiteLLM (model_prices_and_context_window.json)
// or of models.dev (api.json) as a models file: those of the vendors that this table has. A
// models file is returned as it is.
func (t *Table) Convert(text []byte) ([]byte, error) {
	if !json.Valid(text) {
		return nil, errors.New("not valid JSON")
	}
	root := gjson.ParseBytes(text)
	if root.Get("vendors").Exists() {
		return text, nil
	}
	found := map[string]map[string]perMillion{} // by vendor and model
	add := func(vendor, written string, p perMillion) {
		vendor = cmp.Or(aliases[vendor], vendor)
		// Free and unpriced rows would hide the built-in price.
		if t.vendors[vendor] == nil || vendor == "other" || !(p.Input > 0) {
			return
		}
		n := nameOf(written)
		name := n.short()
		if found[vendor] == nil {
			found[vendor] = map[string]perMillion{}
		}
		// A name without a date stands before the same model with one.
		if _, known := found[vendor][name]; !known || strings.HasSuffix(written, name) {
			found[vendor][name] = p
		}
	}
	root.ForEach(func(key, value gjson.Result) bool {
		switch {
		case value.Get("litellm_provider").Exists():
			// Embeddings, images and audio have other units of price.
			if mode := value.Get("mode").Str; mode == "chat" || mode == "responses" {
				add(value.Get("litellm_provider").Str, key.Str, fromLiteLLM(value))
			}
		case value.Get("models").IsObject():
			value.Get("models").ForEach(func(model, value gjson.Result) bool {
				add(key.Str, model.Str, fromModelsDev(value.Get("cost")))
				return true
			})
		}
		return true
	})
	if len(found) == 0 {
		return nil, errors.New("no prices of a known vendor: expected a models file, " +
			"LiteLLM's model_prices_and_context_window.json or models.dev's api.json")
	}
	return t.write(found)
}

func fromLiteLLM(v gjson.Result) perMillion {
	million := func(name string) float64 { return round(v.Get(name).Num * 1e6) }
	p := perMillion{
		Input: million("input_cost_per_token"), Output: million("output_cost_per_token"),
		Read:  million("cache_read_input_token_cost"),
		Write: million("cache_creation_input_token_cost"), WriteLong: million("cache_creation_input_token_cost_above_1hr"),
	}
	v.ForEach(func(key, value gjson.Result) bool {
		above, ok := strings.CutPrefix(key.Str, "input_cost_per_token_above_")
		above, thousands := strings.CutSuffix(above, "k_tokens")
		if n, err := strconv.Atoi(above); ok && thousands && err == nil && p.Input > 0 && p.Output > 0 {
			p.Tier = &tier{
				n * 1000, round(value.Num * 1e6 / p.Input),
				round(million("output_cost_per_token_above_"+above+"k_tokens") / p.Output),
			}
		}
		return true
	})
	// Tables without a price for the long answer mean the same price.
	if p.Tier != nil && p.Tier.Output == 0 {
		p.Tier.Output = 1
	}
	return p
}

func fromModelsDev(cost gjson.Result) perMillion {
	p := perMillion{
		Input: cost.Get("input").Num, Output: cost.Get("output").Num, Read: cost.Get("cache_read").Num,
		Write: cost.Get("cache_write").Num,
	}
	if over := cost.Get("context_over_200k"); over.IsObject() && p.Input > 0 && p.Output > 0 {
		// models.dev knows one boundary only and has it in the member's name.
		p.Tier = &tier{200000, round(over.Get("input").Num / p.Input), round(over.Get("output").Num / p.Output)}
	}
	return p
}

// round removes the errors of arithmetic from figures with a few decimals.
func round(f float64) float64 { return math.Round(f*1e9) / 1e9 }

func (t *Table) write(found map[string]map[string]perMillion) ([]byte, error) {
	type row struct {
		Cache  string       `json:"cache,omitempty"`
		Prices []perMillion `json:"prices"`
	}
	type families struct {
		Families map[string]map[string]row `json:"families"`
	}
	vendors := map[string]families{}
	for vendor, models := range found {
		of := families{map[string]map[string]row{}}
		for name, p := range models {
			n := nameOf(name)
			r := row{Prices: []perMillion{p}}
			// A model new to the table needs a cache kind, and its nearest sibling is the best guess.
			if t.vendors[vendor].models[name] == nil {
				if sibling := t.vendors[vendor].sibling(n, time.Now()); sibling != nil {
					r.Cache = sibling.Cache
				}
			}
			if of.Families[n.family] == nil {
				of.Families[n.family] = map[string]row{}
			}
			of.Families[n.family][name] = r
		}
		vendors[vendor] = of
	}
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetIndent("", "  ")
	if err := e.Encode(map[string]any{"vendors": vendors}); err != nil {
		return nil, err
	}
	return b.Bytes(), nil
}

// Row is a model as a table has it at one time.
type Row struct {
	Rules
	// Vendor and Family are where it stands in the file.
	Vendor, Family string
	// Grade, Source and Checked are where its figures are from.
	Grade, Source string
	// Checked: see Grade.
	Checked time.Time
	// Unpriced reports that the row has no prices.
	Unpriced bool
}

// Rows returns the models of a table at a time, by vendor, family and version, the newest
// first. Vendors that serve the models of others have only their own rows.
func (t *Table) Rows(at time.Time) []Row {
	t = t.now()
	var rows []Row
	for _, vendor := range slices.Sorted(maps.Keys(t.vendors)) {
		v := t.vendors[vendor]
		for _, family := range slices.Sorted(maps.Keys(v.Families)) {
			models := slices.Collect(v.family(family))
			models = slices.DeleteFunc(models, func(m *model) bool { return v.row(family, m.name) == nil })
			slices.SortFunc(models, func(a, b *model) int {
				return cmp.Or(cmp.Compare(b.version.major, a.version.major), cmp.Compare(b.version.minor, a.version.minor),
					cmp.Compare(a.name, b.name))
			})
			for _, m := range models {
				r := Row{m.rules(at), vendor, family, m.Grade, m.evidence.Source, m.evidence.Checked.Time, len(m.Prices) == 0}
				r.Provider = vendor
				rows = append(rows, r)
			}
		}
	}
	return rows
}

// row returns the vendor's own row of a model, nil for none.
func (v *vendor) row(family, name string) *modelRow {
	for written, row := range v.Families[family] {
		if nameOf(written).model == name {
			return row
		}
	}
	return nil
}

// Difference is a figure in which two tables differ.
type Difference struct {
	Vendor, Model, Figure string
	Before, After         string
}

// String writes the difference in one line.
func (d Difference) String() string {
	if d.Figure == "" {
		return fmt.Sprintf("%s %s: %s", d.Vendor, d.Model, d.After)
	}
	return fmt.Sprintf("%s %s: %s: %s, was %s", d.Vendor, d.Model, d.Figure, d.After, d.Before)
}

// Differences returns the figures of another table's models that differ from this table's at a time.
func (t *Table) Differences(o *Table, at time.Time) (out []Difference) {
	before := map[[2]string]Row{}
	for _, r := range t.Rows(at) {
		before[[2]string{r.Vendor, r.Model}] = r
	}
	for _, r := range o.Rows(at) {
		was, known := before[[2]string{r.Vendor, r.Model}]
		if !known {
			out = append(out, Difference{Vendor: r.Vendor, Model: r.Model, After: fmt.Sprintf("new, $%g input, $%g output",
				r.Input, r.Output)})
			continue
		}
		for _, f := range []struct {
			name          string
			before, after any
		}{
			{"kind", was.Regime, r.Regime},
			{"ttl", was.TTL, r.TTL},
			{"long_ttl", was.LongTTL, r.LongTTL},
			{"min_tokens", was.MinTokens, r.MinTokens},
			{"context_window", was.ContextWindow, r.ContextWindow},
			{"input", was.Input, r.Input},
			{"output", was.Output, r.Output},
			{"write", was.Write, r.Write},
			{"write_long", was.Write1h, r.Write1h},
			{"read", was.Read, r.Read},
			{
				"tier",
				[3]float64{float64(was.TierAbove), was.TierInput, was.TierOutput},
				[3]float64{float64(r.TierAbove), r.TierInput, r.TierOutput},
			},
		} {
			if f.before != f.after {
				out = append(out, Difference{r.Vendor, r.Model, f.name, fmt.Sprint(f.before), fmt.Sprint(f.after)})
			}
		}
	}
	return out
}
