# Run at install: copies `headers` of `source_dir` below `destination`/kvpool by way of `work_dir`,
# and lets them include each other from there.
foreach(header IN LISTS headers)
  file(READ "${source_dir}/${header}" text)
  string(REGEX REPLACE "#include \"(client|core)/" "#include \"kvpool/\\1/" text "${text}")
  file(WRITE "${work_dir}/kvpool/${header}" "${text}")
  get_filename_component(folder "${header}" DIRECTORY)
  file(INSTALL DESTINATION "${destination}/kvpool/${folder}" TYPE FILE
    FILES "${work_dir}/kvpool/${header}")
endforeach()
