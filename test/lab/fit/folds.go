// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"slices"
	"sync"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/cli/trial/recording"
	"github.com/caddy-llm-cache/caddy-llm-cache/pipeline"

	"github.com/caddy-llm-cache/caddy-llm-cache/test/internal/needmodels"
)

// folds is the number of folds of owners.
const folds = 6

// fitted is the result of a fit.
type fitted struct {
	conversations []*recording.Conversation
	played        [][]sample
	fold          map[string]int // by owner
	models        [folds]*pipeline.NeedModel
	whole         *pipeline.NeedModel
}

// foldOwners assigns owners to folds with about as many calls each. All of an owner's repositories
// are in one fold.
func foldOwners(conversations []*recording.Conversation) map[string]int {
	calls := map[string]int{}
	for _, c := range conversations {
		calls[c.Owner()] += c.Calls
	}
	owners := slices.SortedFunc(maps.Keys(calls), func(a, b string) int {
		return cmp.Or(cmp.Compare(calls[b], calls[a]), cmp.Compare(a, b))
	})
	var sums [folds]int
	fold := map[string]int{}
	for _, o := range owners {
		k := slices.Index(sums[:], slices.Min(sums[:]))
		fold[o] = k
		sums[k] += calls[o]
	}
	return fold
}

// fitAll fits one model on all conversations, and one without each fold.
func fitAll(conversations []*recording.Conversation, played [][]sample) *fitted {
	f := &fitted{conversations: conversations, played: played, fold: foldOwners(conversations)}
	f.whole = f.without(-1)
	for k := range f.models {
		f.models[k] = f.without(k)
	}
	return f
}

// thin is the factor by which samples that were not needed are thinned out. The weights of the rest
// are multiplied by it.
const thin = 6

// without fits a model on all conversations but those of a fold.
func (f *fitted) without(fold int) *pipeline.NeedModel {
	var data [pipeline.Groups][]*sample
	for i, c := range f.conversations {
		if f.fold[c.Owner()] == fold {
			continue
		}
		for j := range f.played[i] {
			s := &f.played[i][j]
			if !s.needed {
				if (i*7919+j)%thin != 0 {
					continue
				}
				s = &sample{s.Appraisal, false, s.weight * thin, s.bytes}
			}
			data[s.Group] = append(data[s.Group], s)
		}
	}
	fmt.Fprintf(os.Stderr, "fitting without fold %d\n", fold)
	m := new(pipeline.NeedModel)
	var groups sync.WaitGroup
	for g := range m {
		groups.Go(func() { m[g] = additive(data[g], deployed) })
	}
	groups.Wait()
	return m
}

// json returns the models of the folds in the format of lab/study -folds-by repo.
func (f *fitted) json() ([]byte, error) {
	return json.Marshal(needmodels.Models{Fold: f.fold, Models: f.models[:]})
}
