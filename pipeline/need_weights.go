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
	groupResults: {termOne: -5.49, termAge2: -0.08, termSize: 0.82, termEdited: 2.07, termSearch: -0.80},
	groupReads:   {termOne: 3.15, termAge2: -0.07, termUnused: -0.27, termSize: 0.26, termEdited: -2.29, termWhole: -2.20, termPart: -1.03, termHot: -0.68, termHotIdle: 0.27, termEditAge: -0.67, termRecent: -0.82, termRereadIdle: -0.58, termTestIdle: -0.48},
	groupInputs:  {termOne: -2.85, termIdle: 0.54, termIdle2: -0.08, termSize: 0.61, termWhole: -3.11, termShell: -2.17, termOther: -1.76, termEditAge: -0.49},
}
