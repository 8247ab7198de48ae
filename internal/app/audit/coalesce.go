// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package audit

import "strings"

// maxGroups bounds the groups of summed turns. Beyond it only kind and outcome are told apart.
const maxGroups = 256

type group struct {
	tenant, user, project        string
	groups                       string // separated by NUL
	client                       string
	model, billed                string
	clientFormat, upstreamFormat string
	kind, policy, outcome        string
	assumedFrom, pricesOf        string
	fallback                     string
	holdout                      bool
}

type groups map[group]*Record

func (g groups) add(r *Record) {
	key := group{
		r.Tenant, r.User, r.Project, strings.Join(r.Groups, "\x00"), r.Client, r.Model, r.BilledModel, r.ClientFormat, r.UpstreamFormat, r.Kind, r.Policy,
		r.Outcome, r.AssumedFrom, r.PricesOf, r.Fallback,
		r.Holdout,
	}
	sum := g[key]
	if sum == nil && len(g) >= maxGroups {
		key = group{kind: r.Kind, outcome: r.Outcome}
		sum = g[key]
	}
	if sum == nil {
		sum = &Record{
			ID: NewID(r.At), At: r.At, Kind: key.kind, Outcome: key.outcome, Policy: key.policy,
			Tenant: key.tenant, User: key.user, Project: key.project, Client: key.client, Model: key.model, BilledModel: key.billed,
			ClientFormat: key.clientFormat, UpstreamFormat: key.upstreamFormat, AssumedFrom: key.assumedFrom,
			PricesOf: key.pricesOf, Fallback: key.fallback, Holdout: key.holdout,
		}
		if key.groups != "" {
			sum.Groups = r.Groups
		}
		g[key] = sum
	}
	sum.Turns += r.Turns
	sum.OriginalTokens += r.OriginalTokens
	sum.SentTokens += r.SentTokens
	sum.Billed.add(&r.Billed)
	sum.ReadEstimated += r.ReadEstimated
	sum.Estimated += r.Estimated
	sum.ClientBilled.add(&r.ClientBilled)
	sum.Cost += r.Cost
	sum.ClientCost += r.ClientCost
	sum.USD += r.USD
	sum.ClientUSD += r.ClientUSD
	sum.WouldSave += r.WouldSave
	sum.WouldSaveUSD += r.WouldSaveUSD
	sum.Translation += r.Translation
	sum.TranslationUSD += r.TranslationUSD
	sum.Folded += r.Folded
	sum.Removed += r.Removed
	sum.Rewritten += r.Rewritten
	sum.FoldMisses += r.FoldMisses
	sum.BreakCost += r.BreakCost
	sum.Rereads += r.Rereads
	sum.FailedEdits += r.FailedEdits
	sum.SimulatedCost += r.SimulatedCost
}
