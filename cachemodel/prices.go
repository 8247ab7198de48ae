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

package cachemodel

import (
	_ "embed"
	"fmt"
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

// prices is the table, by provider and model, each model's rows by date.
var prices = sync.OnceValue(func() map[[2]string][]price {
	rows, err := parsePrices(pricesText)
	if err != nil {
		panic("cachemodel: prices.txt: " + err.Error()) // part of the program; a test reads every row
	}
	table := make(map[[2]string][]price, len(rows))
	for _, p := range rows {
		k := [2]string{p.provider, p.model}
		table[k] = append(table[k], p)
	}
	return table
})

func parsePrices(text string) ([]price, error) {
	var rows []price
	n := 0
	for line := range strings.Lines(text) {
		n++
		line = strings.TrimSpace(line)
		if line == "" || line[0] == '#' {
			continue
		}
		p, err := parsePrice(strings.Fields(line))
		if err != nil {
			return nil, fmt.Errorf("line %d: %w", n, err)
		}
		rows = append(rows, p)
	}
	return rows, nil
}

// columns is the number of columns before the mark, which is the rest of the line.
const columns = 12

func parsePrice(f []string) (price, error) {
	if len(f) <= columns {
		return price{}, fmt.Errorf("%d columns, %d and a mark expected", len(f), columns)
	}
	p := price{provider: f[0], model: f[1]}
	r := &p.rules
	r.Provider, r.Model, r.Mark = f[0], f[1], strings.Join(f[columns:], " ")
	if f[2] != "-" {
		from, err := time.Parse(time.DateOnly, f[2])
		if err != nil {
			return price{}, fmt.Errorf("from: %w", err)
		}
		p.from = from
	}
	var figures [5]float64 // input, output, write, write1h, read
	for i := range figures {
		if s := f[3+i]; s != "-" {
			v, err := strconv.ParseFloat(s, 64)
			if err != nil {
				return price{}, fmt.Errorf("price %q: %w", s, err)
			}
			figures[i] = v
		}
	}
	r.Input, r.Output = figures[0], figures[1]
	if r.Input <= 0 {
		return price{}, fmt.Errorf("input price %g is not positive", r.Input)
	}
	r.Write, r.Write1h, r.Read = multiple(figures[2], r.Input), multiple(figures[3], r.Input), multiple(figures[4], r.Input)
	if r.Write == 0 {
		r.Write, r.Write1h = 1, 1 // writing is free: a token not found costs its input price
	}
	var err error
	if r.MinTokens, err = strconv.Atoi(f[8]); err != nil {
		return price{}, fmt.Errorf("min: %w", err)
	}
	if f[9] != "-" {
		if _, err := fmt.Sscanf(f[9], "%d:%g:%g", &r.TierAbove, &r.TierInput, &r.TierOutput); err != nil {
			return price{}, fmt.Errorf("tier %q: %w", f[9], err)
		}
	}
	if f[10] != "-" {
		if r.ContextWindow, err = strconv.Atoi(f[10]); err != nil {
			return price{}, fmt.Errorf("window: %w", err)
		}
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

// multiple divides two prices and takes off what the division adds to figures
// that have a few decimals.
func multiple(part, whole float64) float64 {
	m, _ := strconv.ParseFloat(strconv.FormatFloat(part/whole, 'g', 9, 64), 64)
	return m
}

// find returns the row of a model that holds at a time.
func find(provider, model string, at time.Time) (price, bool) {
	rows := prices()[[2]string{provider, model}]
	if len(rows) == 0 {
		return price{}, false
	}
	row := rows[0]
	for _, p := range rows[1:] {
		if !at.Before(p.from) {
			row = p
		}
	}
	return row, true
}
