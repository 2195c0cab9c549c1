def Good : Op<"good"> {
  let summary = "an operation that says what it makes";
}
