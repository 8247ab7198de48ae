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

package pipeline

// needWeights are the coefficients of the need model, by group. They were fitted
// on recorded conversations by
//
//	go test ./pipeline -run TestFitNeed -fit -v
var needWeights = [groups]features{
	groupResults: {termOne: -6.92, termAge: 0.37, termIdle: 0.34, termUnused: 0.20, termEdited: 0.70, termReread: -0.38, termWhole: -0.09, termTasks: -0.16, termAway: 0.43, termSearch: -0.45, termSize: 0.67, termAge2: -0.17, termHot: 0.67, termLoop: -0.07, termLoopSize: 0.30, termLoopAge: -0.23},
	groupReads:   {termOne: -2.99, termAge: 0.12, termIdle: 0.24, termUnused: -0.27, termEdited: -0.18, termReread: -0.14, termWhole: -1.29, termTasks: 0.19, termAway: -0.48, termSize: 0.38, termAge2: -0.12, termHot: 0.24, termLoop: 0.21, termLoopSize: 0.29, termLoopAge: -0.19},
	groupInputs:  {termOne: -3.20, termAge: 0.38, termIdle: -0.18, termUnused: -0.05, termEdited: 0.84, termReread: -0.05, termWhole: -1.97, termTasks: -0.03, termAway: 0.15, termSearch: -0.15, termSize: 0.63, termAge2: -0.10, termHot: -0.06, termLoop: -0.49, termLoopSize: 0.23, termLoopAge: 0.03},
}
